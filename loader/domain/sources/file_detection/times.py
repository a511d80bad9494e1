"""Formats of dates and timestamps, by the values of all columns."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loader.domain.sources.file_detection.cells import DATE as DATE_KIND
from loader.domain.sources.file_detection.cells import EMPTY, kind_of
from loader.domain.sources.file_detection.column_names import is_of_dates
from loader.domain.sources.file_detection.examples import time_example
from loader.domain.sources.file_detection.model import Question, first_names
from loader.domain.sources.file_detection.personal_columns import is_birth
from loader.domain.sources.sampling import holds
from metadata.domain.sources.value_formats import TimeFormat
from metadata.domain.types import DATE, TIMESTAMP, DataType

_DIGITS = re.compile(r"(\d{1,4})([./-])(\d{1,2})\2(\d{1,4})(.*)", re.DOTALL)
_COMPACT = re.compile(r"((?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))((?:[ T]?\d{2}:?\d{2}.*)?)")
_COMPACT_AT_END = re.compile(r"[0-3]\d[0-3]\d(?:19|20)\d{2}")
# Formats of dates that may be numbers.
COMPACT = ("%Y%m%d", "%d%m%Y", "%m%d%Y")
_MONTH = r"[^\W\d_]{3,9}"
_DAY_FIRST = re.compile(rf"(\d{{1,2}})([-. /]{{1,2}}){_MONTH}([-. /]{{1,2}})(\d{{4}}|\d{{2}})((?!\d).*)", re.DOTALL)
_MONTH_FIRST = re.compile(rf"{_MONTH}\.? (\d{{1,2}})(,? )(\d{{4}})(.*)", re.DOTALL)
# Dates with the name of a month, in any language.
_NAMED = re.compile(rf"(?:\d{{1,2}}[-. /]{{1,2}}{_MONTH}\b|{_MONTH}\.? \d{{1,2}},? \d{{4}}).*", re.DOTALL)
_LETTERS, _SHORTEST_MONTH = re.compile(r"[^\W\d_]{3,}"), 3
# Usual first years of a century: of POSIX from 1970 on, of Excel from 1930 on, the current and the last one.
_FIRST_YEARS, _FIRST_YEARS_OF_BIRTHS = (1970, 1930, 2000, 1900), (1930, 1900, 1970, 2000)
_JOINED = re.compile(rf"\d{{1,2}}{_MONTH}(\d{{4}}|\d{{2}})((?!\d).*)", re.DOTALL)
_CLOCK = re.compile(
    r"(?P<gap>[ T:]|, | {2})(?P<hour>\d{1,2}):\d{2}(?P<seconds>:\d{2})?(?:(?P<point>[.,])(?P<fraction>\d{1,9}))?"
    r"(?P<half> ?(?:[aApP][mM]))?(?P<zone> ?(?:Z|[+-]\d{2}(?::?\d{2})?))?"
)
_SAMPLE = 2_000


@dataclass(frozen=True)
class _Column:
    """Column of dates or times of day with dates: the formats that all its values have."""

    name: str
    kind: str
    formats: tuple[str, ...]
    is_standard: bool = False

    @property
    def is_unsure(self) -> bool:
        """Return True for years of two digits, and for numbers in a column without the name of dates."""
        first = self.formats[0] if self.formats else None
        return (first in COMPACT and not is_of_dates(self.name)) or _has_short_year(first)


def detect_time_formats(
    columns: Mapping[str, Sequence[str]], *, is_american: bool
) -> tuple[dict[str, Any], list[Question]]:
    """Return ``date_format`` and ``timestamp_format`` unless all are written in the standard way, and what is open.

    ``is_american``: of dates with slashes, the month comes likelier first.
    """
    read = [column for name, values in columns.items() if (column := _column(name, values)) is not None]
    month_first = _month_orders([column for column in read if column.is_unsure])
    month_first |= _month_orders([column for column in read if not column.is_unsure])
    options: dict[str, Any] = {}
    questions: list[Question] = []
    for option, kind in (("date_format", DATE), ("timestamp_format", TIMESTAMP)):
        of_kind = [column for column in read if column.kind == kind]
        standard = [column.name for column in of_kind if column.is_standard]
        others = [column for column in of_kind if not column.is_standard]
        if not others:
            continue
        sure = [column for column in others if not column.is_unsure]
        formats = _formats(sure, month_first, is_american)
        chosen = [column for column in sure if formats[0] in column.formats]
        unsure = _formats([column for column in others if column.is_unsure], month_first, is_american)
        candidates: list[str | None] = [*formats]
        if standard or unsure or formats[0] in COMPACT:
            # Values of unsure columns stay as they are unless a user says that they are dates.
            candidates.insert(len(formats) if len(chosen) >= len(standard) else 0, None)
        candidates = list(dict.fromkeys([*candidates, *unsure]))
        if candidates[0] is not None:
            options[option] = candidates[0]
        if len(candidates) > 1:
            questions.append(Question(option, tuple(candidates), _reason(others, standard, formats)))
    short_formats = {text for question in questions for text in question.candidates if _has_short_year(text)}
    if short_formats:
        short = [column for column in read if short_formats & set(column.formats)]
        questions.append(_century_question(short, columns, sorted(short_formats)))
    return options, questions


def _has_short_year(text: str | None) -> bool:
    return text is not None and "%y" in text


def _century_question(
    short: Sequence[_Column], columns: Mapping[str, Sequence[str]], formats: Sequence[str]
) -> Question:
    """Return the question about the century of two-digit years, with examples."""
    has_births = any(is_birth(column.name) for column in short)
    years = _FIRST_YEARS_OF_BIRTHS if has_births else _FIRST_YEARS
    shapes = [[TimeFormat(text, year) for year in years] for text in formats]
    best: tuple[str, list[str | None]] | None = None
    for text in (value.strip() for column in short for value in columns[column.name][:_SAMPLE]):
        for group in shapes:
            read = [shape.read(text) for shape in group]
            if any(read) and (best is None or len(set(read)) > len(set(best[1]))):
                best = text, read
    examples = tuple(time_example(best[0], None, moment) for moment in best[1]) if best is not None else ()
    reason = f"years of {first_names([column.name for column in short])} have two digits and no century"
    return Question("first_year", years, reason, examples)


def unread_dates(columns: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the columns of dates with names of months that no format reads: they stay texts."""
    named = {name: values for name, values in columns.items() if _has_named_months(values)}
    return tuple(name for name, values in named.items() if _column(name, values) is None)


def _has_named_months(values: Sequence[str]) -> bool:
    present = [value.strip() for value in values if kind_of(value) != EMPTY][:_SAMPLE]
    return bool(present) and all(kind_of(text) == DATE_KIND and _NAMED.match(text) for text in present)


def _reason(columns: Sequence[_Column], standard: Sequence[str], formats: Sequence[str]) -> str:
    """Return why a format is asked: formats that exclude each other, and values that may be no dates.

    ``columns`` are those that are not written in the standard way, ``formats`` the candidates of those that are sure.
    """
    sure = [column for column in columns if not column.is_unsure]
    reasons = []
    if standard:
        other = (sure or columns)[0].name
        reasons.append(f"{standard[0]} is written in the standard way, {other} is not; only one can be read")
    if len(formats) > 1:
        reasons.append(_difference(sure, formats))
    # Numbers of versions look alike.
    short = [column.name for column in columns if _has_short_year(column.formats[0])]
    if short:
        reasons.append(f"{first_names(short)} may have dates with years of two digits, or other values")
    compact = [column.name for column in columns if column.formats[0] in COMPACT]
    if compact:
        reasons.append(f"{first_names(compact)} may have dates or numbers")
    return "; ".join(reasons)


def _difference(columns: Sequence[_Column], formats: Sequence[str]) -> str:
    """Return the difference between formats of columns, as a reason to ask for one."""
    names = first_names([column.name for column in columns])
    if len({text.replace("%B", "%b") for text in formats}) == 1:
        return f"the names of months in {names} may be short or full ones"
    if not all(set(formats) <= set(column.formats) for column in columns):
        return f"{names} are written in different formats; only one can be read"
    return f"no value of {names} shows which number is the day"


def _month_orders(columns: Sequence[_Column]) -> dict[str, bool]:
    """Return for each sign between day and month whether columns show that the month comes before the day.

    A sign is left out if no column shows it, or if columns differ.
    """
    orders: dict[str, set[bool]] = {}
    for column in columns:
        order = _is_month_first(column.formats) if column.formats else None
        if order is not None:
            orders.setdefault(_sign(column.formats[0]), set()).add(order)
    return {sign: next(iter(shown)) for sign, shown in orders.items() if len(shown) == 1}


def _sign(text: str) -> str:
    """Return the first sign between the parts of a format, empty without one."""
    return next((token for token in TimeFormat(text).tokens if not token.startswith("%")), "")


def _formats(columns: Sequence[_Column], month_first: Mapping[str, bool], is_american: bool) -> list[str]:
    """Return the format that most columns have, and others that the values leave open, the likeliest first."""
    if not columns:
        return []
    candidates = list(dict.fromkeys(text for column in columns for text in column.formats))
    counts = {text: sum(text in column.formats for column in columns) for text in candidates}
    most = max(counts.values())
    best = [text for text in candidates if counts[text] == most]
    if len(best) > 1:
        orders = {text: (month_first.get(_sign(text)), _month_is_first(text)) for text in best}
        best = [text for text, (shown, own) in orders.items() if shown is None or own in (shown, None)] or best
    best = _without_shorter(best)
    best.sort(key=lambda text: (_month_is_first(text) is True) != ("/" in text and is_american))
    others = [text for column in columns if best[0] not in column.formats for text in _without_shorter(column.formats)]
    return list(dict.fromkeys((*best, *others)))


def _without_shorter(formats: Sequence[str]) -> list[str]:
    """Return the formats without those that differ by leading zeros that may be missing."""
    fewest = min(text.count("%-") for text in formats)
    return [text for text in formats if text.count("%-") == fewest]


def _is_month_first(formats: Sequence[str]) -> bool | None:
    """Return True if every format has the month before the day, False if none, None if the values leave it open."""
    orders = {_month_is_first(text) for text in formats} - {None}
    return next(iter(orders)) if len(orders) == 1 else None


def _month_is_first(text: str) -> bool | None:
    """Return True for a format like %m/%d/%Y, False for one like %d/%m/%Y, None for a format that begins otherwise."""
    start = text.replace("-", "", 1) if text.startswith("%-") else text
    return {"%m": True, "%d": False}.get(start[:2]) if "%b" not in text.lower() else None


def _column(name: str, values: Sequence[str]) -> _Column | None:
    """Return the formats of a column; None if it has no dates."""
    present = [value.strip() for value in values if kind_of(value) != EMPTY][:_SAMPLE]
    if not present:
        return None
    if len(present[0]) >= 8 and "-" in present[0][:5]:
        for kind in (DATE, TIMESTAMP):
            # A date is a timestamp, too, but of another kind of column.
            is_date = kind == DATE
            if all((len(value) == 10) == is_date and holds(DataType(kind), value) for value in present):
                return _Column(name, kind, (), is_standard=True)
    candidates = list(dict.fromkeys(text for value in _extremes(present) for text in _candidates(value)))
    fitting = [text for text in candidates if _fits(text, present)]
    # Names like Mai and Juni are full ones and short ones, longer ones rather full.
    if any(len(name) > _SHORTEST_MONTH for text in present for name in _LETTERS.findall(text)):
        fitting.sort(key=lambda text: "%b" in text)
    # Other than with hyphens, a year of two digits comes last if it may.
    fitting = [text for text in fitting if not text.startswith(("%y.", "%y/"))] or fitting
    if not fitting:
        return None
    kind = TIMESTAMP if "%H" in fitting[0] or "%I" in fitting[0] or "%-H" in fitting[0] or "%-I" in fitting[0] else DATE
    return _Column(name, kind, tuple(fitting))


def _extremes(values: Sequence[str]) -> list[str]:
    """Return a few values from which formats are derived: the first, the shortest and the longest."""
    return list(dict.fromkeys((values[0], min(values, key=len), max(values, key=len))))


def _fits(text: str, values: Sequence[str]) -> bool:
    shape = TimeFormat(text)
    if shape.problem(with_time="%H" in text or "%I" in text or "%-H" in text or "%-I" in text) is not None:
        return False
    return all(shape.read(value) is not None for value in values)


def _candidates(value: str) -> Iterator[str]:
    """Yield the formats that a value may have."""
    if match := _DIGITS.fullmatch(value):
        first, sign, _, last, rest = match.groups()
        dates = _of_digits(first, sign, last)
    elif match := _COMPACT.fullmatch(value):
        dates, rest = list(COMPACT), match[2]
    elif _COMPACT_AT_END.fullmatch(value):
        dates, rest = list(COMPACT), ""
    elif match := _DAY_FIRST.fullmatch(value):
        _, before, after, year, rest = match.groups()
        # The dot belongs to a short name, which months that are not shortened do not have.
        between = after[1:] if len(after) == 2 and after.startswith(".") else after
        years = "%Y" if len(year) == 4 else "%y"
        dates = [f"{day}{before}{month}{between}{years}" for day in ("%d", "%-d") for month in ("%b", "%B")]
    elif match := _JOINED.fullmatch(value):
        years, rest = "%Y" if len(match[1]) == 4 else "%y", match[2]
        dates = [f"{day}{month}{years}" for day in ("%d", "%-d") for month in ("%b", "%B")]
    elif match := _MONTH_FIRST.fullmatch(value):
        _, between, _, rest = match.groups()
        dates = [f"{month} {day}{between}%Y" for day in ("%d", "%-d") for month in ("%b", "%B")]
    else:
        return
    yield from (date + clock for clock in _clocks(rest) for date in dates)


def _of_digits(first: str, sign: str, last: str) -> list[str]:
    if len(first) == 4:
        return [f"%Y{sign}{order}" for order in (f"%m{sign}%d", f"%-m{sign}%-d")]
    if len(last) not in (2, 4) or len(first) > 2:
        return []
    orders = (f"%d{sign}%m", f"%m{sign}%d", f"%-d{sign}%-m", f"%-m{sign}%-d")
    if len(last) == 4:
        return [f"{order}{sign}%Y" for order in orders]
    return [*(f"{order}{sign}%y" for order in orders), f"%y{sign}%m{sign}%d"]


def _clocks(rest: str) -> Iterator[str]:
    """Yield the formats of a time of day after a date; the empty one if there is none."""
    if not rest:
        yield ""
        return
    match = _CLOCK.fullmatch(rest)
    if match is None:
        return
    seconds = ":%S" if match["seconds"] else ""
    fraction = f"{match['point']}%f" if match["fraction"] else ""
    zone = f"{' ' if match['zone'].startswith(' ') else ''}%z" if match["zone"] else ""
    half = f"{' ' if match['half'].startswith(' ') else ''}%p" if match["half"] else ""
    for hour in ("%I", "%-I") if half else ("%H", "%-H"):
        yield f"{match['gap']}{hour}:%M{seconds}{fraction}{half}{zone}"
