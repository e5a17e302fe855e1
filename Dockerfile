# The service, on PostgreSQL or SQLite. Build it with: docker build -t lorewell .
# With a small embedding model: docker build --build-arg EXTRAS=postgres,local-embeddings -t lorewell .
FROM python:3.12-slim AS build
ARG EXTRAS=postgres
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/lorewell \
    && /opt/lorewell/bin/pip install --no-cache-dir ".[${EXTRAS}]"

FROM python:3.12-slim
RUN useradd --system --uid 10001 --create-home --home-dir /data lorewell
COPY --from=build /opt/lorewell /opt/lorewell
ENV PATH=/opt/lorewell/bin:$PATH \
    LOREWELL_DATABASE_URL=sqlite:////data/lorewell.db \
    LOREWELL_HOST=0.0.0.0 \
    LOREWELL_AUTH=true \
    LOREWELL_LOG_FORMAT=json
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8876
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8876/readyz', timeout=2)"]
CMD ["lorewell", "serve"]
