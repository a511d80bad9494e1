"""Values of Debezium's events as text, for samples (``loader.engine.sources.kafka.values`` has the same in Spark)."""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

from loader.domain.sources.debezium import LONGEST_BITS, MOMENT, PER_SECOND, Encoding
from loader.readers.records.values import Number, Value, text_of
from metadata.domain.sources.option_kinds import MICROSECONDS, MILLISECONDS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WRAPPED = ("$oid", "$numberLong", "$numberInt", "$numberDecimal", "$numberDouble")


def text_of_value(value: Any, encoding: Encoding) -> Value:
    """Return a value of an event as text, like a load reads it; in its own notation if the encoding does not fit."""
    if value is None:
        return None
    try:
        return _decoded(value, encoding)
    except (ValueError, TypeError, OverflowError, ArithmeticError, KeyError):
        return text_of(value)


def _decoded(value: Any, encoding: Encoding) -> Value:
    is_number = isinstance(value, Number)
    match encoding.kind:
        case "days" if is_number:
            return (date(1970, 1, 1) + timedelta(days=int(value))).isoformat()
        case "moment" if is_number:
            moment = _EPOCH + timedelta(microseconds=_microseconds(int(value), encoding.unit))
            return moment.isoformat().replace("+00:00", "Z")
        case "clock" if is_number:
            moment = _EPOCH + timedelta(microseconds=_microseconds(int(value), encoding.unit))
            if moment.date() != _EPOCH.date():
                raise ValueError(value)
            return moment.time().isoformat()
        case "iso":
            return str(value).removesuffix("Z")
        case "bits" if 0 < encoding.size <= LONGEST_BITS:
            number = int.from_bytes(base64.b64decode(str(value), validate=True), "little")
            return f"{number:0{encoding.size}b}"
        case "decimal" if not is_number:
            return _scaled(str(value), encoding.size)
        case "scaled decimal" if isinstance(value, Mapping):
            return _scaled(str(value["value"]), int(value["scale"]))
        case "array" if isinstance(value, list) and encoding.item is not None:
            return json.dumps([text_of_value(entry, encoding.item) for entry in value], separators=(",", ":"))
    return text_of(value)


def _microseconds(number: int, unit: str) -> int:
    whole, rest = divmod(number * PER_SECOND[MICROSECONDS], PER_SECOND[unit])
    if rest:
        raise ValueError(number)
    return whole


def _scaled(encoded: str, scale: int) -> str:
    number = int.from_bytes(base64.b64decode(encoded, validate=True), "big", signed=True)
    return f"{Decimal(number).scaleb(-scale, Context(prec=1_000)):f}"


def unwrapped(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the plain values in the objects by which MongoDB's JSON names their types."""
    return {name: _unwrapped(value) for name, value in row.items()}


def _unwrapped(value: Any) -> Any:
    if not isinstance(value, Mapping) or len(value) != 1:
        return value
    ((name, inner),) = value.items()
    if name in _WRAPPED and isinstance(inner, str):
        return inner if name == "$oid" else Number(inner)
    if name == "$date":
        milliseconds = inner.get("$numberLong") if isinstance(inner, Mapping) else inner
        if isinstance(milliseconds, Number) or (isinstance(milliseconds, str) and isinstance(inner, Mapping)):
            return text_of_value(Number(milliseconds), Encoding(MOMENT, unit=MILLISECONDS))
        return milliseconds
    return value
