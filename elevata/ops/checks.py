"""Checks of an installation's settings, with stable ids, for ``manage.py check --deploy`` and ``migrate``."""

import os
from collections.abc import Collection
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connection

from elevata.bootstrap import jars
from elevata.bootstrap.console import Problem
from elevata.core.errors import MetadataError
from elevata.core.installation import user_command
from elevata.jobs import registry
from loader.contract.refusals import Refusal
from loader.domain.catalogs.catalog_setting import spark_catalog
from loader.runner.spark_settings import defines, refused_settings
from metadata.domain.sources.secret_names import check_secret_name
from metadata.models import System


@register(Tags.security, deploy=True)
def secret_key_is_given(**_: Any) -> list[CheckMessage]:
    """Warn if a database server is used without a given secret key: each host would create its own."""
    if settings.SECRET_KEY_IS_GIVEN or not _with_server():
        return []
    message = "The secret key was made in the data folder: another host of this installation would make another one."
    return [Warning(message, hint="Set ELEVATA_SECRET_KEY to the same value for every process.", id="elevata.W001")]


@register(Tags.security, deploy=True)
def audit_key_is_given(**_: Any) -> list[CheckMessage]:
    """Warn if a database server is used without a given audit key: each host would sign with its own."""
    if settings.AUDIT_KEY_IS_GIVEN or not _with_server():
        return []
    message = "The audit key was made in the data folder: another host of this installation would make another one."
    hint = "Set ELEVATA_AUDIT_KEY, or ELEVATA_AUDIT_KEY_FILE, to the same key for every process."
    return [Warning(message, hint=hint, id="elevata.W005")]


@register(deploy=True)
def stores_fit_together(**_: Any) -> list[CheckMessage]:
    """Warn if one of database and broker is in a folder and the other on a server: a folder serves one host only."""
    files = settings.CELERY_BROKER_URL.startswith("filesystem://")
    messages: list[CheckMessage] = []
    if not _with_server() and not files:
        message = (
            "The control database is a file, but the broker is a server: workers elsewhere can't see the database."
        )
        messages.append(Warning(message, hint="Set DATABASE_URL to a PostgreSQL server.", id="elevata.W002"))
    if _with_server() and files:
        message = "The broker is a folder, but the control database is a server: workers elsewhere hear no wake-up."
        messages.append(Warning(message, hint="Set CELERY_BROKER_URL to a Redis server.", id="elevata.W003"))
    return messages


@register(Tags.security)
def metrics_networks_are_networks(**_: Any) -> list[CheckMessage]:
    """Report invalid networks at the start instead of at the first request for metrics."""
    messages: list[CheckMessage] = []
    for text in settings.METRICS_ALLOW:
        try:
            network = ip_network(text, strict=False)
        except ValueError:
            message = f"ELEVATA_METRICS_ALLOW names {text!r}, which is no network."
            messages.append(
                Error(message, hint="Give networks like 10.0.0.0/8, with commas between them.", id="elevata.E001")
            )
            continue
        if network.prefixlen == 0:
            message = f"ELEVATA_METRICS_ALLOW names {text}: everybody may read the metrics."
            messages.append(Warning(message, hint="Name the networks of your collectors only.", id="elevata.W004"))
    return messages


@register()
def job_kinds_are_unique(**_: Any) -> list[CheckMessage]:
    """Report a job kind with two handlers: jobs of that kind would be performed by the wrong one."""
    try:
        registry.handlers()
    except ImproperlyConfigured as problem:
        return [Error(str(problem), hint="Give one of the two kinds another name.", id="elevata.E004")]
    return []


@register()
def spark_settings_are_accepted(**_: Any) -> list[CheckMessage]:
    """Report refused Spark settings with file and line, before the first load of a worker."""
    try:
        refused = refused_settings()
    except Refusal as refusal:
        refused = [refusal.message]
    hint = "Take it out of the file that ELEVATA_SPARK_CONF names; docs/operate/spark.md has the reasons."
    return [Error(problem, hint=hint, id="elevata.E002") for problem in refused]


@register()
def catalog_is_defined(**_: Any) -> list[CheckMessage]:
    """Warn about a catalog that the Spark settings do not define; loads run without it."""
    name = spark_catalog(settings.CATALOG)
    if not name or defines(f"spark.sql.catalog.{name}"):
        return []
    message = f"ELEVATA_CATALOG names the catalog {name}, which Spark does not know."
    hint = f"Define spark.sql.catalog.{name} in the file that ELEVATA_SPARK_CONF names, or correct ELEVATA_CATALOG."
    return [Warning(message, hint=hint, id="elevata.W007")]


@register()
def packages_were_fetched(**_: Any) -> list[CheckMessage]:
    """Warn about packages that set-up has not downloaded; a runner starts without the network."""
    coordinates = Path(settings.SPARK_JARS, jars.COORDINATES)
    if not coordinates.is_file():  # a folder of jars that set-up did not make
        return []
    try:
        missing = sorted(set(jars.packages(os.environ)) - set(coordinates.read_text().split()))
    except Problem as error:
        return [Error(str(error), id="elevata.E003")]
    message = f"Packages that Spark is to have were not fetched: {', '.join(missing)}."
    hint = f"Run {user_command('setup')} with the same variables."
    return [Warning(message, hint=hint, id="elevata.W006")] if missing else []


@register(Tags.database)
def secrets_of_systems_are_listed(databases: Collection[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Warn about systems with a secret that is neither reserved nor listed: their sources are not read."""
    if DEFAULT_DB_ALIAS not in (databases or ()) or not _has_secrets():
        return []
    systems = System.objects.exclude(secret="").order_by("short_name").values_list("short_name", "secret")
    unlisted = [f"{name} ({secret})" for name, secret in systems if not _may_name(secret)]
    if not unlisted:
        return []
    message = f"Systems name secrets that sources may not name, so they are not read: {', '.join(unlisted)}."
    hint = "List these variables in ELEVATA_SOURCE_SECRETS for every process, or rename them to ELEVATA_SOURCE_…"
    return [Warning(message, hint=hint, id="elevata.W008")]


def _has_secrets() -> bool:
    """Return False before the first migration, and in a database of a release without secrets."""
    table = System._meta.db_table
    with connection.cursor() as cursor:
        if table not in connection.introspection.table_names(cursor):
            return False
        columns = connection.introspection.get_table_description(cursor, table)
    return "secret" in {column.name for column in columns}


def _may_name(secret: str) -> bool:
    try:
        check_secret_name(secret, settings.SOURCE_SECRETS)
    except MetadataError:
        return False
    return True


def _with_server() -> bool:
    return not str(settings.DATABASES["default"]["ENGINE"]).endswith("sqlite3")
