"""Source contracts: reading options, and differences from a delivery."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from elevata.core.errors import MetadataError
from metadata.domain.sql import VARIABLE
from metadata.domain.types import DataType


@dataclass(frozen=True)
class DeliveredColumn:
    """Column of a file or of the contract; a contract column may be inactive."""

    name: str
    type: DataType
    active: bool = True

    def as_json(self) -> dict[str, str]:
        return {"name": self.name, "type": str(self.type)}


@dataclass(frozen=True)
class ColumnProposals:
    """Differences between the columns of a delivery and of its contract.

    ``new`` columns can be added, ``returning`` ones are inactive in the contract and can be reactivated,
    ``missing`` ones are in the contract but not delivered, ``clashing`` ones differ from a known column only
    by case, which a table cannot store. Types found in a file are guesses, so they are not compared.
    """

    new: tuple[DeliveredColumn, ...] = ()
    returning: tuple[DeliveredColumn, ...] = ()
    missing: tuple[DeliveredColumn, ...] = ()
    clashing: tuple[DeliveredColumn, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.new or self.returning)


def compare(known: Iterable[DeliveredColumn], delivered: Iterable[DeliveredColumn]) -> ColumnProposals:
    """Return the differences between contract and delivery; columns are matched by their exact name.

    The order of the file decides only on the order of new columns.
    """
    by_name = {column.name: column for column in known}
    held = {name.lower() for name in by_name}
    new, returning, clashing, seen = [], [], [], set()
    for column in delivered:
        match = by_name.get(column.name)
        if match is not None:
            if not match.active:
                returning.append(match)
        elif column.name.lower() in held:
            clashing.append(column)
        else:
            new.append(column)
            held.add(column.name.lower())
        seen.add(column.name)
    missing = tuple(c for c in by_name.values() if c.active and c.name not in seen)
    return ColumnProposals(tuple(new), tuple(returning), missing, tuple(clashing))


# Options for reading delivered files, by format.


# Option to the type of its value. One character means: exactly one, or none to switch it off.
_CHARACTER, _TEXT, _FLAG = "one character", "text", "true or false"
_ZONE = "a time zone like Europe/Berlin or +02:00"
_COUNT = "a whole number from 1"
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
        "expected_files": _COUNT,
    },
    # JSON is UTF-8.
    "jsonl": {"empty_is_null": _FLAG, "null_string": _TEXT, "timezone": _ZONE, "expected_files": _COUNT},
    "parquet": {"timezone": _ZONE, "expected_files": _COUNT},
    # Of a database.
    "table": {
        "query": _TEXT,
        "filter": _TEXT,
        "partition_column": _TEXT,
        "partitions": _COUNT,
        "fetch_size": _COUNT,
        "timeout": _COUNT,
        "timezone": _ZONE,
    },
}


def check_options(source_format: str, options: Any) -> None:
    """Refuse options that the format does not have, and values that do not have the option's type."""
    if not isinstance(options, Mapping):
        raise _problem("options", f"must be fields with values, not {options!r}")
    known = OPTIONS.get(source_format, {})
    for name, value in options.items():
        field = f"options.{name}"
        if name not in known:
            message = f"known are {', '.join(known)}" if known else "there are none"
            raise _problem(field, f"is no option of {source_format}; {message}")
        _check_value(field, known[name], value)
    if options.get("delimiter") == "":
        raise _problem("options.delimiter", "cannot be empty")


def _check_value(field: str, kind: str, value: Any) -> None:
    fits = {
        _CHARACTER: isinstance(value, str) and len(value) <= 1 and value not in ("\n", "\r", "\0"),
        _TEXT: isinstance(value, str) and bool(value.strip()),
        _FLAG: isinstance(value, bool),
        _ZONE: isinstance(value, str) and _is_zone(value),
        _COUNT: type(value) is int and value >= 1,
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
