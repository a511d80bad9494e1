"""Checks of an installation's settings, with stable ids, for ``manage.py check --deploy``."""

from ipaddress import ip_network
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register


@register(Tags.security, deploy=True)
def secret_key_is_given(**_: Any) -> list[CheckMessage]:
    """Beside a database server there may be several hosts, and each would make a key of its own."""
    if settings.SECRET_KEY_IS_GIVEN or not _with_server():
        return []
    said = "The secret key was made in the data folder: another host of this installation would make another one."
    return [Warning(said, hint="Set ELEVATA_SECRET_KEY to the same value for every process.", id="elevata.W001")]


@register(Tags.security, deploy=True)
def audit_key_is_given(**_: Any) -> list[CheckMessage]:
    """Beside a database server there may be several hosts, and each would sign with a key of its own."""
    if settings.AUDIT_KEY_IS_GIVEN or not _with_server():
        return []
    said = "The audit key was made in the data folder: another host of this installation would make another one."
    hint = "Set ELEVATA_AUDIT_KEY, or ELEVATA_AUDIT_KEY_FILE, to the same key for every process."
    return [Warning(said, hint=hint, id="elevata.W005")]


@register(deploy=True)
def stores_fit_together(**_: Any) -> list[CheckMessage]:
    """A database or a broker in a folder is for the processes of one host, so the other one should be, too."""
    files = settings.CELERY_BROKER_URL.startswith("filesystem://")
    found: list[CheckMessage] = []
    if not _with_server() and not files:
        said = "The control database is a file, but the broker is a server: workers elsewhere can't see the database."
        found.append(Warning(said, hint="Set DATABASE_URL to a PostgreSQL server.", id="elevata.W002"))
    if _with_server() and files:
        said = "The broker is a folder, but the control database is a server: workers elsewhere hear no wake-up."
        found.append(Warning(said, hint="Set CELERY_BROKER_URL to a Redis server.", id="elevata.W003"))
    return found


@register(Tags.security)
def metrics_networks_are_networks(**_: Any) -> list[CheckMessage]:
    """Refused at start, not when the first collector comes."""
    found: list[CheckMessage] = []
    for text in settings.METRICS_ALLOW:
        try:
            network = ip_network(text, strict=False)
        except ValueError:
            said = f"ELEVATA_METRICS_ALLOW names {text!r}, which is no network."
            found.append(
                Error(said, hint="Give networks like 10.0.0.0/8, with commas between them.", id="elevata.E001")
            )
            continue
        if network.prefixlen == 0:
            said = f"ELEVATA_METRICS_ALLOW names {text}: everybody may read the metrics."
            found.append(Warning(said, hint="Name the networks of your collectors only.", id="elevata.W004"))
    return found


def _with_server() -> bool:
    return not settings.DATABASES["default"]["ENGINE"].endswith("sqlite3")
