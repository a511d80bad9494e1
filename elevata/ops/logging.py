"""Formats of log lines: plain text, or one JSON object each (``ELEVATA_LOG_FORMAT=json``).

Both name the request, run or execution, and neither contains a secret: all secrets of the environment are removed
before a line leaves the process, tracebacks included. Independent of Django, because gunicorn uses it before Django
is loaded.
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

from elevata.core.processes import what_about

PUT_OUT = "[secret]"
# Attributes of a record that become fields of the line; further ones come from ``extra``.
_FIELDS = ["name", "message"]
# Django adds whole requests, whose text has the query in it.
_LEFT_OUT = [*RESERVED_ATTRS, "request", "server_time"]
_NAMED_SECRET = re.compile(r"SECRET|PASSWORD|PASSWD|TOKEN|PEPPER|PRIVATE|CREDENTIAL|API_KEY|ACCESS_KEY|AUDIT_KEY")
# References of source systems and webhooks, whose values are secrets.
_REFERENCES = ("ELEVATA_SOURCE_", "ELEVATA_WEBHOOK_")
_NO_SECRETS = frozenset({"ELEVATA_SOURCE_ROOTS", "ELEVATA_SOURCE_HOSTS", "ELEVATA_WEBHOOK_ALLOW"})
_SHORTEST = 6
# Of a secret of several lines each is put out by itself, too: lines are not always logged together.
_SHORTEST_LINE = 12
_LONGEST_FILE = 10_000
_PATTERNS = (
    # The password in an address, a personal token, and credentials in a header.
    (re.compile(r"(://[^/\s:@\"']*:)[^@\s/\"']+(?=@)"), rf"\1{PUT_OUT}"),
    (re.compile(r"\belv_[A-Za-z0-9]{8,}"), f"elv_{PUT_OUT}"),
    (re.compile(r"(?i)(authorization[\"']?\s*[:=]\s*[\"']?(?:token|bearer|basic)\s+)[^\s\"',}]+"), rf"\1{PUT_OUT}"),
)


def scrubbed(text: str) -> str:
    """Return the text without all known secrets and everything that looks like one."""
    for value in _known(_fingerprint()):
        text = text.replace(value, PUT_OUT)
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text


def _fingerprint() -> tuple[tuple[str, str], ...]:
    """Return the environment variables that may hold a secret; secrets are read again when these change."""
    return tuple(sorted(item for item in os.environ.items() if _may_hold_secret(*item)))


def _may_hold_secret(name: str, value: str) -> bool:
    if name in _NO_SECRETS or not value:
        return False
    return bool(_NAMED_SECRET.search(name)) or name.startswith(_REFERENCES) or "://" in value


@cache
def _known(held: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Return every spelling of every secret, the longest first: one may be part of another."""
    found: set[str] = set()
    for name, value in held:
        found.update(_values(name, value))
    found.update(line.strip() for value in tuple(found) for line in _lines(value))
    spelled = {spelling for value in found if len(value) >= _SHORTEST for spelling in _spellings(value)}
    return tuple(sorted(spelled, key=len, reverse=True))


def _values(name: str, value: str) -> Iterable[str]:
    if name.endswith("_FILE"):
        try:
            with Path(value).open(encoding="utf-8") as file:
                yield from _each(name, file.read(_LONGEST_FILE).strip())
        except (OSError, UnicodeDecodeError):
            pass
        return
    if "://" in value:
        yield from _password_in(value)
    if _NAMED_SECRET.search(name) or name.startswith(_REFERENCES):
        yield from _each(name, value)


def _each(name: str, value: str) -> Iterable[str]:
    """Return the value, and each of several keys that it lists."""
    yield value
    if name.startswith("ELEVATA_AUDIT_KEYS"):
        yield from value.replace(",", " ").split()


def _password_in(address: str) -> Iterable[str]:
    """Return the password in an address, as written and decoded."""
    try:
        password = urlsplit(address).password
    except ValueError:
        return
    if password:
        yield password
        yield unquote(password)


def _lines(value: str) -> Iterable[str]:
    lines = value.splitlines()
    return (line for line in lines if len(line.strip()) >= _SHORTEST_LINE) if len(lines) > 1 else ()


def _spellings(value: str) -> Iterable[str]:
    """Return the value, and its forms within JSON and within Python's own texts."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]


class OneLine(logging.Filter):
    """Filter that removes the traceback of a refused request: the refusal has its reason.

    Unexpected errors (500) keep theirs. A line end in an address does not begin another line.
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
        super().__init__(_FIELDS, rename_fields={"name": "logger"}, reserved_attrs=_LEFT_OUT, json_ensure_ascii=False)

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: Mapping[str, Any]) -> None:
        at = datetime.fromtimestamp(record.created, UTC)
        log_data["time"] = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        log_data["level"] = record.levelname.lower()
        log_data.update(what_about())
        super().add_fields(log_data, record, dict(message_dict))

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        # Before it is JSON: there a text may be written in more than one way.
        return _clean(log_data)


def _clean(value: Any) -> Any:
    """Return the value without secrets, in types that JSON has."""
    if isinstance(value, str):
        return scrubbed(value)
    if isinstance(value, Mapping):
        return {str(name): _clean(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_clean(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float) else scrubbed(str(value))


def logging_settings(style: str, level: str) -> dict[str, Any]:
    """Return Django's LOGGING, and gunicorn's: everything to standard error, in one form."""
    formatter = "elevata.ops.logging.JsonLines" if style == "json" else "elevata.ops.logging.PlainLines"
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": formatter}},
        "filters": {"refused": {"()": "elevata.ops.logging.OneLine"}},
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "lines", "filters": ["refused"]}},
        "root": {"handlers": ["console"], "level": level},
        "loggers": {
            # Django's own handlers would repeat each line in another form.
            "django": {"handlers": [], "propagate": True},
            "django.server": {"handlers": [], "propagate": True},
            "gunicorn.error": {"handlers": [], "propagate": True, "level": level},
            # The product has a line of its own for each request; this one would have the query in it.
            "gunicorn.access": {"handlers": [], "propagate": False, "level": "CRITICAL"},
        },
    }
