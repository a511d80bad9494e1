# One image for every process of the product: web, worker, scheduler, and Spark's master and workers.
FROM python:3.11-slim-bookworm

RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/*

# The folders exist in the image so that new volumes mounted there belong to the user.
RUN useradd --uid 10001 --create-home elevata \
 && mkdir -p /opt/elevata /var/lib/elevata/audit /var/lib/elevata/exports /var/lib/elevata/landing /var/lib/elevata/warehouse \
 && chown -R elevata:elevata /opt/elevata /var/lib/elevata
USER elevata
WORKDIR /opt/elevata

ENV PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    ELEVATA_DATA_DIR=/var/lib/elevata \
    PATH=/opt/elevata/.venv/bin:$PATH

# Packages, jars and front-end files first: this layer stays when only the code changed.
COPY --chown=elevata:elevata requirements.txt requirements-dev.txt package.json package-lock.json .npmrc ./
COPY --chown=elevata:elevata elevata/__init__.py elevata/
COPY --chown=elevata:elevata elevata/core/__init__.py elevata/core/data_folder.py elevata/core/installation.py elevata/core/properties.py elevata/core/
COPY --chown=elevata:elevata elevata/bootstrap elevata/bootstrap
# Further packages for Spark, by coordinates: docs/operate/spark.md
ARG ELEVATA_SPARK_PACKAGES=
RUN python3 -m elevata.bootstrap setup --without database static

COPY --chown=elevata:elevata . .
# The key is for this one command, which signs nothing; every container must be given its own.
RUN ELEVATA_SECRET_KEY=only-for-this-step ELEVATA_AUDIT_KEY=only-for-this-step-and-no-installation \
    python3 -m elevata.bootstrap setup --without database

EXPOSE 8000
CMD ["gunicorn", "elevata.wsgi", "--bind", "0.0.0.0:8000", "--workers", "2", "--threads", "4"]
