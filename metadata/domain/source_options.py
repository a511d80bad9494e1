"""How a delivered file is read, per format."""

from collections.abc import Mapping
from typing import Any

from metadata.domain.errors import MetadataError
from metadata.domain.sql import VARIABLE

# Option to the type of its value. One character means: exactly one, or none to switch it off.
_CHARACTER, _TEXT, _FLAG = "one character", "text", "true or false"
OPTIONS = {
    "csv": {
        "delimiter": _CHARACTER,
        "quote": _CHARACTER,
        "escape": _CHARACTER,
        "encoding": _TEXT,
        "header": _FLAG,
        "empty_is_null": _FLAG,
    },
    "jsonl": {"encoding": _TEXT},
    "parquet": {},
    "table": {},
}


def check_options(source_format: str, options: Any) -> None:
    """Refuse options the format does not have, and values that are not of the option's type."""
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
    }[kind]
    if isinstance(value, str) and VARIABLE in value:
        raise _problem(field, f"holds {VARIABLE}, which would stand for a variable of the worker")
    if not fits:
        raise _problem(field, f"must be {kind}, not {value!r}")


def _problem(field: str, message: str) -> MetadataError:
    return MetadataError("bad_option", message, field)
