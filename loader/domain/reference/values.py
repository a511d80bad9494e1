"""Values of cases: read from JSON, typed by their column, and compared (rule 5).

A value fits a type if its text can be converted without loss, by the rules of ``loader.engine.conversions``. Values
are compared by ``canonical``: decimals by number, NaN equal to NaN, -0.0 equal to 0.0, timestamps as instants,
strings unchanged, uuid, time and json by their value. The first value is stored, so an unchanged row keeps its first
literal.
"""

import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, DecimalException
from math import isinf
from typing import Any

from loader.domain.historization.compared_texts import ComparedText
from loader.domain.historization.hashing import canonical_text
from metadata.domain import types as data_types
from metadata.domain.text_formats import BLANKS, TO_MICROSECONDS
from metadata.domain.types import DataType

_RANGES = {data_types.INTEGER: 2**31, data_types.BIGINT: 2**63}
_EXACT = Context(prec=1000)

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6}0*)?)?", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.(\d{1,6})0*)?)?) ?(Z|UTC|[+-]\d{2}(?::?[0-5]\d)?)?)?",
    re.ASCII,
)
_BEYOND_MICROSECONDS = re.compile(f"({TO_MICROSECONDS})[0-9]+")
_UUID = re.compile(r"[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_BOOLEANS = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}
_ODD_DOUBLES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity", "-0.0": "-0.0"}


class DoesNotFit(ValueError):
    """Error raised for a value that its column's type cannot hold."""


def typed(value: Any, type_: DataType) -> Any:
    """Convert the JSON ``value`` to ``type_``; None stays None. Raise DoesNotFit."""
    if value is None:
        return None
    read = _READERS[type_.name]
    try:
        return read(_text(value), type_)
    except (ValueError, OverflowError, DecimalException):
        raise DoesNotFit(f"{_shown(value)} does not fit {type_}") from None


def cut_to_microseconds(value: Any, type_: DataType) -> Any:
    """Return the text of a timestamp or a time without digits below microseconds; any other value unchanged."""
    is_time = type_.name in (data_types.TIMESTAMP, data_types.TIME) and isinstance(value, str)
    return _BEYOND_MICROSECONDS.sub(r"\1", value) if is_time else value


def canonical(value: Any) -> str | None:
    """Return the text by which values of one column are compared; None is NULL and equals only itself."""
    return canonical_text(value)


def as_json(value: Any) -> Any:
    """Return a typed value as JSON of a case: decimals, special doubles and all times are text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            odd = value != value or isinf(value) or str(value) == "-0.0"
            return _ODD_DOUBLES[str(value)] if odd else value
        case datetime():
            text = value.astimezone(UTC).isoformat(timespec="auto" if value.microsecond % 1000 else "milliseconds")
            return text.replace("+00:00", "Z").replace(".000Z", "Z")
        case date():
            return value.isoformat()
        case Decimal():
            return format(value, "f")
        case bytes():
            return value.hex()
    return str(value)


def _text(value: Any) -> str:
    """Return the text of a JSON value: text unchanged, all else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _shown(value: Any) -> str:
    text = _text(value)
    return repr(text if len(text) <= 60 else text[:57] + "…")


def _match(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return match


def _string(text: str, type_: DataType) -> str:
    if type_.length is not None and len(text) > type_.length:
        raise ValueError(text)
    return text


def _number(text: str) -> Decimal:
    return _EXACT.create_decimal(_match(_NUMBER, text.strip(BLANKS))[0])


def _integer(text: str, type_: DataType) -> int:
    number = _number(text)
    bound = _RANGES[type_.name]
    if number != number.to_integral_value() or not -bound <= number < bound:
        raise ValueError(text)
    return int(number)


def _decimal(text: str, type_: DataType) -> Decimal:
    assert type_.precision is not None
    assert type_.scale is not None
    number = _number(text)
    fits = number.quantize(Decimal(1).scaleb(-type_.scale), context=_EXACT)
    if fits != number or abs(fits) >= Decimal(10) ** (type_.precision - type_.scale):
        raise ValueError(text)
    return fits


def _float(text: str, type_: DataType) -> float:
    text = text.strip(BLANKS)
    if text.lower() == "nan":
        return float("nan")
    if _INFINITE.fullmatch(text):
        return float(text)
    number = float(_match(_NUMBER, text)[0])
    if isinf(number):
        raise ValueError(text)
    return number


def _boolean(text: str, type_: DataType) -> bool:
    parsed = _BOOLEANS.get(text.strip(BLANKS).lower())
    if parsed is None:
        raise ValueError(text)
    return parsed


def _date(text: str, type_: DataType) -> date:
    return date.fromisoformat(_match(_DATE, text.strip(BLANKS))[0])


def _time(text: str, type_: DataType) -> str:
    return ComparedText.of(_match(_TIME, text.strip(BLANKS))[0], type_.name)


def _timestamp(text: str, type_: DataType) -> datetime:
    day, clock, fraction, zone = _match(_TIMESTAMP, text.strip(BLANKS)).groups()
    at = datetime.combine(date.fromisoformat(day), time.fromisoformat((clock or "00:00").partition(".")[0]), UTC)
    at += timedelta(microseconds=int((fraction or "").ljust(6, "0")))
    return at - _offset(zone or "Z")


def _offset(zone: str) -> timedelta:
    if zone in ("Z", "UTC"):
        return timedelta()
    digits = zone[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return -offset if zone[0] == "-" else offset


def _binary(text: str, type_: DataType) -> bytes:
    text = text.strip(BLANKS)
    if not re.fullmatch(r"[0-9a-fA-F]*", text):
        raise ValueError(text)
    return bytes.fromhex(text)


def _uuid(text: str, type_: DataType) -> str:
    return ComparedText.of(_match(_UUID, text.strip(BLANKS))[0], type_.name)


def _json(text: str, type_: DataType) -> str:
    json.loads(text, parse_constant=_no_constant)
    return ComparedText.of(text, type_.name)


def _no_constant(text: str) -> None:
    raise ValueError(text)


_READERS: dict[str, Callable[[str, DataType], Any]] = {
    data_types.STRING: _string,
    data_types.INTEGER: _integer,
    data_types.BIGINT: _integer,
    data_types.DECIMAL: _decimal,
    data_types.FLOAT: _float,
    data_types.BOOLEAN: _boolean,
    data_types.DATE: _date,
    data_types.TIME: _time,
    data_types.TIMESTAMP: _timestamp,
    data_types.BINARY: _binary,
    data_types.UUID: _uuid,
    data_types.JSON: _json,
}
