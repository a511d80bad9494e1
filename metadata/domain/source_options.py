"""Options for reading delivered files, by format."""

import re
from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from elevata.core.errors import MetadataError
from metadata.domain.sql import VARIABLE

# Option to the type of its value. One character means: exactly one, or none to switch it off.
_CHARACTER, _TEXT, _FLAG = "one character", "text", "true or false"
_ZONE = "a time zone like Europe/Berlin or +02:00"
_OFFSET = re.compile(r"[+-](0\d|1[0-8]):[0-5]\d")
OPTIONS = {
    "csv": {
        "delimiter": _CHARACTER,
        "quote": _CHARACTER,
        "escape": _CHARACTER,
        "encoding": _TEXT,
        "header": _FLAG,
        "empty_is_null": _FLAG,
        "null_string": _TEXT,
        "timezone": _ZONE,
    },
    # JSON is UTF-8.
    "jsonl": {"empty_is_null": _FLAG, "null_string": _TEXT, "timezone": _ZONE},
    "parquet": {"timezone": _ZONE},
    "table": {},
}


def check_options(source_format: str, options: Any) -> None:
    """Refuse options that the format does not have, and values that do not have the option's type."""
    if not isinstance(options, Mapping):
        raise _problem("options", f"must be fields with values, not {options!r}")
    known = OPTIONS.get(source_format, {})
    for name, value in options.items():
        field = f"options.{name}"
        if name not in known:
            said = f"known are {', '.join(known)}" if known else "there are none"
            raise _problem(field, f"is no option of {source_format}; {said}")
        _check_value(field, known[name], value)
    if options.get("delimiter") == "":
        raise _problem("options.delimiter", "cannot be empty")


def _check_value(field: str, kind: str, value: Any) -> None:
    fits = {
        _CHARACTER: isinstance(value, str) and len(value) <= 1 and value not in ("\n", "\r", "\0"),
        _TEXT: isinstance(value, str) and bool(value.strip()),
        _FLAG: isinstance(value, bool),
        _ZONE: isinstance(value, str) and _is_zone(value),
    }[kind]
    if isinstance(value, str) and VARIABLE in value:
        raise _problem(field, f"holds {VARIABLE}, which would stand for a variable of the worker")
    if not fits:
        raise _problem(field, f"must be {kind}, not {value!r}")


def _is_zone(name: str) -> bool:
    if _OFFSET.fullmatch(name):
        return True
    try:
        ZoneInfo(name)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return False
    return True


def _problem(field: str, message: str) -> MetadataError:
    return MetadataError("bad_option", message, field)
