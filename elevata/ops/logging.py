"""Formats of log lines: plain text, or one JSON object each (``ELEVATA_LOG_FORMAT=json``).

Lines of both formats name the request, run or execution. All secrets of the environment are removed from lines and
tracebacks before they are written. The module does not import Django, because gunicorn uses it before Django is loaded.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

from elevata.core.log_context import what_about

PUT_OUT = "[secret]"
# Attributes of a record that become fields of the line, besides those of ``extra``.
_FIELDS = ["name", "message"]
# Django adds whole requests, whose text contains the query.
_OMITTED = [*RESERVED_ATTRS, "request", "server_time"]
_NAMED_SECRET = re.compile(r"SECRET|PASSWORD|PASSWD|TOKEN|PEPPER|PRIVATE|CREDENTIAL|API_KEY|ACCESS_KEY|AUDIT_KEY")
# References of source systems and webhooks, whose values are secrets.
_REFERENCES = ("ELEVATA_SOURCE_", "ELEVATA_WEBHOOK_")
_LISTED = "ELEVATA_SOURCE_SECRETS"
_NO_SECRETS = frozenset({"ELEVATA_SOURCE_ROOTS", "ELEVATA_SOURCE_HOSTS", _LISTED, "ELEVATA_WEBHOOK_ALLOW"})
_SHORTEST = 6
# Each line of a secret of several lines is removed on its own as well, because it may be logged alone.
_SHORTEST_LINE = 12
_LONGEST_FILE = 10_000
_PATTERNS = (
    # Passwords in addresses, personal tokens, and credentials in headers.
    (re.compile(r"(://[^/\s:@\"']*:)[^@\s/\"']+(?=@)"), rf"\1{PUT_OUT}"),
    (re.compile(r"\belv_[A-Za-z0-9]{8,}"), f"elv_{PUT_OUT}"),
    (re.compile(r"(?i)(authorization[\"']?\s*[:=]\s*[\"']?(?:token|bearer|basic)\s+)[^\s\"',}]+"), rf"\1{PUT_OUT}"),
)


def scrubbed(text: str) -> str:
    """Return the text without known secrets, and without text that looks like a secret."""
    for value in _known_secrets(_fingerprint()):
        text = text.replace(value, PUT_OUT)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def _fingerprint() -> tuple[tuple[str, str], ...]:
    """Return the environment variables that may contain a secret; secrets are read again when these change."""
    return tuple(sorted(item for item in os.environ.items() if _may_hold_secret(*item)))


def _may_hold_secret(name: str, value: str) -> bool:
    if name in _NO_SECRETS or not value:
        return False
    return _names_secret(name) or "://" in value


def _names_secret(name: str) -> bool:
    """Return True for a variable whose value is a secret: by its name, or as one that sources may name."""
    if _NAMED_SECRET.search(name) or name.startswith(_REFERENCES):
        return True
    listed = os.environ.get(_LISTED, "")
    return bool(listed) and name.removesuffix("_FILE") in {item.strip() for item in listed.split(",")}


@cache
def _known_secrets(variables: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Return every spelling of every secret, the longest first, because one may be part of another."""
    values: set[str] = set()
    for name, value in variables:
        values.update(_secret_values(name, value))
    values.update(line.strip() for value in tuple(values) for line in _long_lines(value))
    spelled = {spelling for value in values if len(value) >= _SHORTEST for spelling in _spellings(value)}
    return tuple(sorted(spelled, key=len, reverse=True))


def _secret_values(name: str, value: str) -> Iterable[str]:
    if name.endswith("_FILE"):
        try:
            with Path(value).open(encoding="utf-8") as file:
                yield from _listed_keys(name, file.read(_LONGEST_FILE).strip())
        except (OSError, UnicodeDecodeError):
            pass
        return
    if "://" in value:
        yield from _passwords(value)
    if _names_secret(name):
        yield from _listed_keys(name, value)


def _listed_keys(name: str, value: str) -> Iterable[str]:
    """Yield the value, and each key of a list of keys."""
    yield value
    if name.startswith("ELEVATA_AUDIT_KEYS"):
        yield from value.replace(",", " ").split()


def _passwords(address: str) -> Iterable[str]:
    """Yield the password in an address, as written and decoded."""
    try:
        password = urlsplit(address).password
    except ValueError:
        return
    if password:
        yield password
        yield unquote(password)


def _long_lines(value: str) -> Iterable[str]:
    lines = value.splitlines()
    return (line for line in lines if len(line.strip()) >= _SHORTEST_LINE) if len(lines) > 1 else ()


def _spellings(value: str) -> Iterable[str]:
    """Yield the value, and its forms in JSON and in Python's ``repr``."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]


class OneLine(logging.Filter):
    """Filter that removes the traceback of refused requests, whose message has the reason.

    Unexpected errors (500) keep their traceback.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        status = getattr(record, "status_code", 500)
        if record.name.startswith(("django.request", "django.security")) and status < 500:
            record.exc_info = record.exc_text = None
        return True


class PlainLines(logging.Formatter):
    """Text lines: time, level, logger, context, message."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(about)s%(message)s")

    def format(self, record: logging.LogRecord) -> str:
        record.about = "".join(f"{name}={value} " for name, value in what_about().items())
        return scrubbed(super().format(record))


class JsonLines(JsonFormatter):
    """JSON lines: time (UTC), level, logger, message, context, and the caller's fields."""

    def __init__(self) -> None:
        super().__init__(_FIELDS, rename_fields={"name": "logger"}, reserved_attrs=_OMITTED, json_ensure_ascii=False)

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: Mapping[str, Any]) -> None:
        at = datetime.fromtimestamp(record.created, UTC)
        log_data["time"] = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        log_data["level"] = record.levelname.lower()
        log_data.update(what_about())
        super().add_fields(log_data, record, dict(message_dict))

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        # Secrets are removed before the encoding, because JSON can write a text in more than one way.
        return _without_secrets(log_data)


def _without_secrets(value: Any) -> Any:
    """Return the value without secrets, in types of JSON."""
    if isinstance(value, str):
        return scrubbed(value)
    if isinstance(value, Mapping):
        return {str(name): _without_secrets(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_without_secrets(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float) else scrubbed(str(value))


def logging_settings(style: str, level: str) -> dict[str, Any]:
    """Return the logging settings of Django and gunicorn: all lines go to standard error, in one format."""
    formatter = "elevata.ops.logging.JsonLines" if style == "json" else "elevata.ops.logging.PlainLines"
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": formatter}},
        "filters": {"refused": {"()": "elevata.ops.logging.OneLine"}},
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "lines", "filters": ["refused"]}},
        "root": {"handlers": ["console"], "level": level},
        "loggers": {
            # Django's own handlers would write each line a second time, in another format.
            "django": {"handlers": [], "propagate": True},
            "django.server": {"handlers": [], "propagate": True},
            "gunicorn.error": {"handlers": [], "propagate": True, "level": level},
            # The product writes its own line for each request; gunicorn's would contain the query.
            "gunicorn.access": {"handlers": [], "propagate": False, "level": "CRITICAL"},
        },
    }
