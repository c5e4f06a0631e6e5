# One image for web, workers and commands; what differs is the command and the environment (docs/how-to/deploy.md).
#
# BASE needs Python 3.11 or newer with venv; from Debian 13 on it has buildx and compose, too. Pin it by digest in what you build for
# others, as in
#   docker build --build-arg BASE=python:3.12-slim-trixie@sha256:... -t skillglass .
ARG BASE=python:3.12-slim-trixie

# --- what is installed, once: compilers and caches stay behind in this stage ---
FROM ${BASE} AS installed
COPY requirements.txt /build/requirements.txt
RUN python3 -m venv /venv \
    && /venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r /build/requirements.txt

# --- what runs ---
FROM ${BASE}
LABEL org.opencontainers.image.title="Skillglass" \
      org.opencontainers.image.licenses="Apache-2.0"

# Workers build tasks' images with the first and start the services of tasks with the second. Without the first they use the
# engine's classic builder; without the second, tasks of several services do not run.
RUN apt-get update \
    && for package in docker-buildx docker-compose; do \
         if apt-cache show "$package" >/dev/null 2>&1; \
         then apt-get install -y --no-install-recommends "$package"; \
         else echo "no $package for this base: some tasks will not run" >&2; fi; done \
    && rm -rf /var/lib/apt/lists/*

# A fixed number, so that volumes keep their owner from one image to the next.
RUN groupadd --gid 10001 skillglass \
    && useradd --uid 10001 --gid 10001 --home-dir /var/lib/skillglass --shell /usr/sbin/nologin skillglass \
    && install -d -o skillglass -g skillglass -m 0750 /var/lib/skillglass

ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    LITELLM_LOCAL_MODEL_COST_MAP=True \
    SKILLGLASS_VAR=/var/lib/skillglass \
    SKILLGLASS_STATIC=/app/collected \
    LOG_FORMAT=json

WORKDIR /app
COPY --from=installed /venv /venv
COPY . /app

# Compiled and collected while it is built, as root: what runs can read it and change none of it. The key is of this
# line only; SKILLGLASS_VAR points away so that nothing is left where the volume will lie.
RUN python3 -m compileall -q /app/benchapp /app/demo /app/inspector /app/runner /app/skillglass \
    && SECRET_KEY=only-to-collect SKILLGLASS_VAR=/tmp/collecting python3 manage.py collectstatic --noinput --verbosity 0 \
    && rm -rf /tmp/collecting

USER skillglass
VOLUME /var/lib/skillglass
EXPOSE 8000
STOPSIGNAL SIGTERM
CMD ["gunicorn", "-c", "python:benchapp.gunicorn_settings", "benchapp.wsgi"]
