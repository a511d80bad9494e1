"""Column properties inferred from a sample: types, and a proposed key.

All results are guesses from a part of the data, shown with their evidence for a user to decide on. Text is a number
only if the conversion loses nothing, as in ``loader.engine.sources.deliveries``: ``007`` and numbers of twenty
digits stay string. Where a sample cannot exclude larger values, the wider type is suggested: ten digits are a
bigint, although many of them fit an integer.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from elevata.core.words import counted
from loader.domain.reference.values import DoesNotFit, typed
from metadata.domain import types as data_types
from metadata.domain.sources.value_formats import STANDARD, ValueFormats
from metadata.domain.text_formats import BLANKS, PATTERNS
from metadata.domain.types import DataType

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_DIGITS = re.compile(r"-?[0-9]+")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-][0-9]+)?")
_FIXED = re.compile(r"-?(0|[1-9][0-9]*)\.([0-9]+)")
# More digits after the point suggest a measurement; a single one may be a whole number from a spreadsheet.
_MONEY_SCALES = range(2, 5)
_INTEGER_DIGITS = 9
_DECIMAL_ROOM = 18
_KEY_CANDIDATES = 6
_KEY_WORDS = ("id", "key", "code", "no", "nr", "number", "num", "uuid", "guid", "pk", "sku", "icao", "iban")
_SHOWN = 40

Value = str | None


@dataclass(frozen=True)
class SampledColumn:
    """A column of a sample: ``rows`` were sampled, ``nulls`` of them have no value.

    ``unique``: no value is there twice. ``key_ordinal``: its place in the business key that the data suggest.
    ``problem``: why the column cannot be taken as it is. ``sample``: some example values.
    """

    name: str
    type: DataType
    evidence: str
    rows: int = 0
    nulls: int = 0
    unique: bool = False
    key_ordinal: int | None = None
    key_evidence: str = ""
    nullable: bool = True
    description: str = ""
    sample: tuple[str, ...] = ()
    problem: str = ""


def infer(values: Iterable[Value], rows: int, formats: ValueFormats = STANDARD) -> tuple[DataType, str]:
    """Return the type that holds every value, and the evidence as part of a sentence.

    ``rows`` is the number of sampled rows, those without a value among them. ``formats`` are those that the source
    declares.
    """
    present = [value for value in values if value is not None]
    if not present:
        return DataType(data_types.STRING), "no row of the sample has a value" if rows else "the sample has no rows"
    for type_name, read in _READERS:
        standard = standard_values(present, type_name, formats)
        complete = [text for text in standard if text is not None]
        typed = read(complete) if len(complete) == len(standard) else None
        if typed is not None:
            data_type, message = typed
            return data_type, f"{_all(len(present))} {message}"
    return DataType(data_types.STRING), _why_text(present)


def holds(data_type: DataType, value: Value) -> bool:
    """Return True if a load would accept the value for a column of this type."""
    try:
        typed(value, data_type)
    except DoesNotFit:
        return False
    return True


def misfits(data_type: DataType, values: Iterable[Value], formats: ValueFormats = STANDARD) -> tuple[int, str]:
    """Return the number of values that the type does not hold, and the first of them."""
    present = [value for value in values if value is not None]
    standard = standard_values(present, data_type.name, formats)
    wrong = [value for value, text in zip(present, standard, strict=True) if text is None or not holds(data_type, text)]
    return len(wrong), wrong[0] if wrong else ""


def contradiction(data_type: DataType, values: Iterable[Value], formats: ValueFormats, *, masked: bool) -> str:
    """Return the number of values that the type does not hold, in words with an example; empty if it holds all.

    Of a masked column neither is shown: many types together would reveal the values.
    """
    count, first = misfits(data_type, values, formats)
    if not count:
        return ""
    if masked:
        return f"not every sampled value fits {data_type}"
    value = "value does" if count == 1 else "values do"
    return f"{count:,} sampled {value} not fit {data_type}, {shown(first)} for one"


def standard_values(values: list[str], type_name: str, formats: ValueFormats) -> list[Value]:
    """Return the standard texts of values for a type; None for a value that is not in its declared format."""
    read = formats.reader(type_name)
    return list(values) if read is None else [read(value.strip(BLANKS)) for value in values]


def suggest_key(names: Sequence[str], values: Sequence[Sequence[Value]]) -> tuple[tuple[int, ...], str]:
    """Return positions of columns that could be the business key, and the evidence; empty if none could.

    A key is never empty and never repeated, which a sample of fewer than two rows cannot show. One column is better
    than two; of several, a name typical of keys, and then the leftmost.
    """
    rows = len(values[0]) if values else 0
    if rows < 2:
        return (), ""
    full = [place for place, column in enumerate(values) if all(value not in (None, "") for value in column)]
    single = [place for place in full if len(set(values[place])) == rows]
    if single:
        best = min(single, key=lambda place: (not _sounds_like_key(names[place]), place))
        return (best,), f"{_all(rows)} are present and unique"
    candidates = sorted(full, key=lambda place: (not _sounds_like_key(names[place]), place))[:_KEY_CANDIDATES]
    for pair in combinations(sorted(candidates), 2):
        if len(set(zip(*(values[place] for place in pair), strict=True))) == rows:
            return pair, f"together, no two of the {rows:,} sampled rows have the same values"
    return (), ""


def _sounds_like_key(name: str) -> bool:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return re.split(r"[^a-z0-9]+", words)[-1] in _KEY_WORDS


# Result of a parser: None, or the type and the properties of all values. Parsers are ordered from narrow to wide.
Found = tuple[DataType, str] | None


def _booleans(values: list[str]) -> Found:
    if all(value.lower() in ("true", "false") for value in values):
        return DataType(data_types.BOOLEAN), "are true or false"
    return None


def _integers(values: list[str]) -> Found:
    if not all(_INTEGER.fullmatch(value) for value in values):
        return None
    widest = max(len(value.lstrip("-")) for value in values)
    message = f"are whole numbers; widest {counted(widest, 'digit')}"
    if widest <= _INTEGER_DIGITS:
        return DataType(data_types.INTEGER), message
    return (
        (DataType(data_types.BIGINT), message)
        if all(holds(DataType(data_types.BIGINT), value) for value in values)
        else None
    )


def _fixed_point(values: list[str]) -> Found:
    """Read amounts: every value with the same two to four digits after its point. Others are floats."""
    parts = [_FIXED.fullmatch(value) for value in values]
    scales = {len(part[2]) for part in parts if part is not None}
    if None in parts or len(scales) != 1 or (scale := scales.pop()) not in _MONEY_SCALES:
        return None
    before = max(len(part[1]) for part in parts if part is not None)
    precision = max(_DECIMAL_ROOM, before + scale + 3)
    if precision > data_types.MAX_PRECISION:
        return None
    message = f"have {scale} digits after the point; at most {before} before it"
    return DataType(data_types.DECIMAL, precision=precision, scale=scale), message


def _floats(values: list[str]) -> Found:
    # A number with a huge exponent matches and is no double, so this is checked, too.
    if not all(_FLOAT.fullmatch(value) and holds(DataType(data_types.FLOAT), value) for value in values):
        return None
    scale = max(len(value.partition(".")[2]) for value in values)
    message = f"are numbers, with up to {counted(scale, 'digit')} after the point" if scale else "are numbers"
    return DataType(data_types.FLOAT), message


def _dates(values: list[str]) -> Found:
    return _typed_as(DataType(data_types.DATE), values, lambda value: len(value) == 10, "are dates like 2024-01-31")


def _timestamps(values: list[str]) -> Found:
    inferred = _typed_as(
        DataType(data_types.TIMESTAMP), values, lambda value: len(value) >= 10, "are dates with a time of day"
    )
    return inferred if inferred and any(len(value) > 10 for value in values) else None


def _times(values: list[str]) -> Found:
    return _typed_as(DataType(data_types.TIME), values, re.compile(PATTERNS[data_types.TIME]).match, "are times of day")


def _uuids(values: list[str]) -> Found:
    return _typed_as(DataType(data_types.UUID), values, re.compile(PATTERNS[data_types.UUID]).match, "are UUIDs")


def _json(values: list[str]) -> Found:
    return _typed_as(
        DataType(data_types.JSON), values, lambda value: value[:1] in ("{", "["), "are JSON objects or lists"
    )


def _typed_as(data_type: DataType, values: list[str], looks: Callable[[str], object], reason: str) -> Found:
    # Blanks around a value are part of a text, so a value that has them is taken for a text.
    fits = all(value == value.strip() and looks(value) and holds(data_type, value) for value in values)
    return (data_type, reason) if fits else None


_READERS: tuple[tuple[str, Callable[[list[str]], Found]], ...] = (
    (data_types.BOOLEAN, _booleans),
    (data_types.BIGINT, _integers),
    (data_types.DECIMAL, _fixed_point),
    (data_types.FLOAT, _floats),
    (data_types.DATE, _dates),
    (data_types.TIMESTAMP, _timestamps),
    (data_types.TIME, _times),
    (data_types.UUID, _uuids),
    (data_types.JSON, _json),
)


def _why_text(values: list[str]) -> str:
    """Return why digits or numbers are taken for text; of any other text its greatest length."""
    digits = [value for value in values if _DIGITS.fullmatch(value)]
    if len(digits) == len(values):
        padded = next((value for value in digits if not _INTEGER.fullmatch(value)), None)
        if padded is not None and len(padded.lstrip("-")) < 20:
            return f"{_all(len(values))} are digits, but {shown(padded)} begins with a zero: a number would lose it"
        return f"{_all(len(values))} are digits, but some are too long for a number"
    others = [value for value in values if not (_FLOAT.fullmatch(value) and holds(DataType(data_types.FLOAT), value))]
    if others and len(others) < len(values) / 2:
        numbers = len(values) - len(others)
        return f"{numbers:,} of {len(values):,} sampled values are numbers, {shown(others[0])} is not"
    longest = max(map(len, values))
    return f"text, at most {counted(longest, 'character')} long"


def shown(value: str) -> str:
    """Return a value in quotes, cut short."""
    return repr(value if len(value) <= _SHOWN else f"{value[: _SHOWN - 1]}…")


def _all(count: int) -> str:
    return "all values sampled (just one)" if count == 1 else f"all {count:,} sampled values"
