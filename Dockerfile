# The program in a small image: `docker build -t dryrack .`, then `docker run --rm -v "$PWD:/work" dryrack test scenarios`.
FROM rust:1.95-slim-trixie AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev python3 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --release --locked --bin dryrack && .ci/notices THIRD-PARTY-NOTICES.txt

FROM debian:trixie-slim
# curl is for `dryrack trace get`, python3 for schedulers in Python.
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates curl python3 && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/target/release/dryrack /usr/local/bin/
COPY --from=build /src/LICENSE-MIT /src/LICENSE-APACHE /src/THIRD-PARTY-NOTICES.txt /usr/share/doc/dryrack/
COPY --from=build /src/src/outside/dryrack_outside.py /usr/lib/python3/dist-packages/
ENV DRYRACK_CACHE=/tmp/dryrack
WORKDIR /work
ENTRYPOINT ["dryrack"]
