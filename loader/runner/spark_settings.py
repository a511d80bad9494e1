"""Spark settings of the installation, read from the file ELEVATA_SPARK_CONF.

The file is read whenever a runner starts, so a changed file needs no restart of the worker.
"""

from pathlib import Path
from typing import Any

from django.conf import settings

from elevata.core.properties import BadProperties, Property, parse_properties
from elevata.core.secrets import NoSecret, secret_named
from loader.contract.refusals import Refusal
from loader.domain.spark_settings import PROMISES, problems_of, secret_of

CODE = "SPARK_SETTINGS"
_HINT = "Correct ELEVATA_SPARK_CONF; docs/operate/spark.md has the settings that cannot be given."


def own_settings() -> dict[str, Any]:
    """Return the file's settings, their places in the file, and its secrets. Raise Refusal SPARK_SETTINGS."""
    properties = _properties()
    if refused := refused_settings(properties):
        file, problems = settings.SPARK_CONF, "; ".join(refused)
        raise Refusal(CODE, f"settings of Spark are refused: {problems}", file=file, hint=_HINT)
    return {
        "conf": {entry.name: entry.value for entry in properties if secret_of(entry.value) is None},
        "places": {entry.name: _place(entry) for entry in properties},
        "secrets": {entry.name: _secret(entry) for entry in properties if secret_of(entry.value) is not None},
    }


def refused_settings(properties: list[Property] | None = None) -> list[str]:
    """Return a message for each refused setting of the file: file, line, name and reason."""
    problems = problems_of(_properties() if properties is None else properties)
    return [f"{_place(problem.property)}: {problem.property.name} {problem.reason}" for problem in problems]


def defines(name: str) -> bool:
    """Return True if the file or the product sets this name, or if the file cannot be read."""
    try:
        return name in PROMISES or any(entry.name == name for entry in _properties())
    except Refusal:  # another check reports it
        return True


def _properties() -> list[Property]:
    if not settings.SPARK_CONF:
        return []
    try:
        return parse_properties(Path(settings.SPARK_CONF).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, BadProperties) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise Refusal(CODE, f"{settings.SPARK_CONF} cannot be read: {reason}", hint=_HINT) from None


def _place(entry: Property) -> str:
    return f"{settings.SPARK_CONF}:{entry.line}"


def _secret(entry: Property) -> str:
    try:
        return secret_named(secret_of(entry.value) or "")
    except NoSecret as error:
        raise Refusal(CODE, f"{_place(entry)}: {entry.name}: {error}", hint=_HINT) from None
