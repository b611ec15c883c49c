# syntax=docker/dockerfile:1
FROM debian:bookworm-slim AS build
WORKDIR /src
COPY tools/install-deps.sh tools/
RUN tools/install-deps.sh && rm -rf /var/lib/apt/lists/*
COPY . .
RUN cmake --preset release -DWR_TESTS=OFF \
 && cmake --build build/release --target warmroute mock-engine \
 && cd build/release && cpack -G DEB

# The package brings the libraries it needs, both programs and the name kthena-router.
FROM debian:bookworm-slim
COPY --from=build /src/build/release/*.deb /tmp/
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends /tmp/*.deb \
 && rm -rf /var/lib/apt/lists/* /tmp/*.deb \
 && mkdir /etc/config && ln -s /etc/warmroute/routerConfiguration.yaml /etc/config/ \
 && ln -s /usr/bin/kthena-router /kthena-router \
 && warmroute --version && mock-engine --version
USER 65532:65532
EXPOSE 8080 9090
ENTRYPOINT ["/usr/bin/warmroute"]
