"""Checks of an installation's settings, with stable ids, for ``manage.py check --deploy``."""

import os
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register

from elevata.bootstrap import jars
from elevata.bootstrap.console import Problem
from loader.domain.catalogs.catalog_setting import spark_catalog
from loader.domain.refusals import Refusal
from loader.services.runner.spark_settings import defines, refused_settings


@register(Tags.security, deploy=True)
def secret_key_is_given(**_: Any) -> list[CheckMessage]:
    """Warn without a secret key beside a database server: each of several hosts would create its own."""
    if settings.SECRET_KEY_IS_GIVEN or not _with_server():
        return []
    message = "The secret key was made in the data folder: another host of this installation would make another one."
    return [Warning(message, hint="Set ELEVATA_SECRET_KEY to the same value for every process.", id="elevata.W001")]


@register(Tags.security, deploy=True)
def audit_key_is_given(**_: Any) -> list[CheckMessage]:
    """Warn without an audit key beside a database server: each of several hosts would sign with its own."""
    if settings.AUDIT_KEY_IS_GIVEN or not _with_server():
        return []
    message = "The audit key was made in the data folder: another host of this installation would make another one."
    hint = "Set ELEVATA_AUDIT_KEY, or ELEVATA_AUDIT_KEY_FILE, to the same key for every process."
    return [Warning(message, hint=hint, id="elevata.W005")]


@register(deploy=True)
def stores_fit_together(**_: Any) -> list[CheckMessage]:
    """Warn about a database or broker in a folder beside the other one on a server: a folder serves one host only."""
    files = settings.CELERY_BROKER_URL.startswith("filesystem://")
    found: list[CheckMessage] = []
    if not _with_server() and not files:
        message = (
            "The control database is a file, but the broker is a server: workers elsewhere can't see the database."
        )
        found.append(Warning(message, hint="Set DATABASE_URL to a PostgreSQL server.", id="elevata.W002"))
    if _with_server() and files:
        message = "The broker is a folder, but the control database is a server: workers elsewhere hear no wake-up."
        found.append(Warning(message, hint="Set CELERY_BROKER_URL to a Redis server.", id="elevata.W003"))
    return found


@register(Tags.security)
def metrics_networks_are_networks(**_: Any) -> list[CheckMessage]:
    """Refuse invalid networks at start, not at the first request for metrics."""
    found: list[CheckMessage] = []
    for text in settings.METRICS_ALLOW:
        try:
            network = ip_network(text, strict=False)
        except ValueError:
            message = f"ELEVATA_METRICS_ALLOW names {text!r}, which is no network."
            found.append(
                Error(message, hint="Give networks like 10.0.0.0/8, with commas between them.", id="elevata.E001")
            )
            continue
        if network.prefixlen == 0:
            message = f"ELEVATA_METRICS_ALLOW names {text}: everybody may read the metrics."
            found.append(Warning(message, hint="Name the networks of your collectors only.", id="elevata.W004"))
    return found


@register()
def spark_settings_are_accepted(**_: Any) -> list[CheckMessage]:
    """Refused with file and line before a worker's first load finds it."""
    try:
        refused = refused_settings()
    except Refusal as refusal:
        refused = [refusal.message]
    hint = "Take it out of the file that ELEVATA_SPARK_CONF names; docs/operate/spark.md has the reasons."
    return [Error(problem, hint=hint, id="elevata.E002") for problem in refused]


@register()
def catalog_is_defined(**_: Any) -> list[CheckMessage]:
    """Warn of a catalog that the settings do not define; loads go on without it."""
    name = spark_catalog(settings.CATALOG)
    if not name or defines(f"spark.sql.catalog.{name}"):
        return []
    message = f"ELEVATA_CATALOG names the catalog {name}, which Spark does not know."
    hint = f"Define spark.sql.catalog.{name} in the file that ELEVATA_SPARK_CONF names, or correct ELEVATA_CATALOG."
    return [Warning(message, hint=hint, id="elevata.W007")]


@register()
def packages_were_fetched(**_: Any) -> list[CheckMessage]:
    """Packages are fetched at set-up; a runner starts without the network."""
    fetched = Path(settings.SPARK_JARS, jars.COORDINATES)
    if not fetched.is_file():  # a folder of jars that set-up did not make
        return []
    try:
        missing = sorted(set(jars.packages(os.environ)) - set(fetched.read_text().split()))
    except Problem as problem:
        return [Error(str(problem), id="elevata.E003")]
    said = f"Packages that Spark is to have were not fetched: {', '.join(missing)}."
    return [Warning(said, hint="Run make setup with the same variables.", id="elevata.W006")] if missing else []


def _with_server() -> bool:
    return not settings.DATABASES["default"]["ENGINE"].endswith("sqlite3")
