# syntax=docker/dockerfile:1
# The image has no shell and no package manager: the programs, the libraries they load, CA certificates, time zones.
# For the same bytes again give DEBIAN by digest and SNAPSHOT (tools/image/packages.sh).
ARG DEBIAN=debian:bookworm-slim
FROM ${DEBIAN} AS build
ARG SNAPSHOT=""
WORKDIR /src
COPY tools/install-deps.sh tools/
COPY tools/image/packages.sh tools/image/
RUN tools/image/packages.sh "$SNAPSHOT"
COPY . .
ARG SOURCE_DATE_EPOCH=0
RUN tools/image/build.sh /image

FROM scratch
COPY --from=build /image/ /
USER 65532:65532
EXPOSE 8080 9090
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["/usr/bin/warmroute", "healthcheck"]
ENTRYPOINT ["/usr/bin/warmroute"]
