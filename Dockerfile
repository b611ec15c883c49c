# syntax=docker/dockerfile:1
FROM debian:bookworm-slim AS build
WORKDIR /src
COPY tools/install-deps.sh tools/
RUN tools/install-deps.sh && rm -rf /var/lib/apt/lists/*
COPY . .
RUN cmake --preset release -DWR_TESTS=OFF \
 && cmake --build build/release --target warmroute mock-engine \
 && DESTDIR=/out cmake --install build/release --prefix /usr --strip

FROM debian:bookworm-slim
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends ca-certificates libfmt9 libprometheus-cpp-core1.0 libre2-9 \
      libsimdjson14 libspdlog1.10 libssl3 libyaml-cpp0.7 zlib1g \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/usr/bin/ /usr/bin/
COPY --from=build /out/etc/warmroute/routerConfiguration.yaml /etc/config/routerConfiguration.yaml
# Both names: charts written for kthena-router start it by its own.
RUN ln -sf /usr/bin/warmroute /kthena-router && warmroute --version && mock-engine --version
USER 65532:65532
EXPOSE 8080 9090
ENTRYPOINT ["/usr/bin/warmroute"]
