"""Separators and signs of numbers, by the values of all columns."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loader.domain.sources.file_detection.cells import CURRENCY, EMPTY, MARK, NUMBER, kind_of
from loader.domain.sources.file_detection.column_names import is_of_dates
from loader.domain.sources.file_detection.model import Question, first_names
from loader.domain.sources.headers import is_drawn

_BLANKS = " \u00a0\u202f"
_GROUPS = r"\d{1,3}(?P<group>[.,'’_ \u00a0\u202f])\d{3}(?:(?P=group)\d{3})*"
_BOTH = re.compile(rf"[-+]?{_GROUPS}(?P<decimal>[.,])\d+")
_SEVERAL = re.compile(r"[-+]?\d{1,3}(?P<group>[.,'’_ \u00a0\u202f])\d{3}(?:(?P=group)\d{3})+")
_OTHER_GROUP = re.compile(r"[-+]?\d{1,3}(?P<group>['’_ \u00a0\u202f])\d{3}")
_OPEN = re.compile(r"[-+]?[1-9]\d{0,2}(?P<sign>[.,])\d{3}")
# A number does not begin with a zero before other digits; codes like 01.11 do.
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9]\d*)?(?P<decimal>[.,])\d+(?:[eE][-+]?\d+)?")
# Negative numbers like 12,50-, (12.50) and - 12,50; the groups are named by the ways.
SIGNED = re.compile(
    r"(?!\(?0\d|-.0\d)(?:(?P<trailing>[\d.,](?:[^()]*\d)?)-|\((?P<brackets>[\d.,][^()]*)\)|"
    r"-[ \u00a0\u202f](?P<spaced>[\d.,](?:[^()]*\d)?))"
)
# Days without a year, like 31.01, in a column with a name of dates.
_DAY = re.compile(r"[0-3]\d\.[01]\d")
# Amounts with a currency or percent sign, and their numbers.
_MARKED = re.compile(rf"{CURRENCY}([-+]?\d(?:[\d.,'’ \u00a0\u202f]*\d)?){MARK}")
_PLAIN = re.compile(r"[-+]?\d+(?:[eE][-+]?\d+)?")
# Numbers that no format reads: groups of two digits as in India, a minus of printed texts, and one after a blank.
_UNREAD = re.compile(r"[-+]?\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?|−[ \u00a0\u202f]?[\d.,]*\d|\d[\d.,]*[ \u00a0\u202f]-")


@dataclass
class _Separators:
    """Separators that numbers of a column show, and the number of values that leave a separator open.

    ``long`` is the number of values with more than three digits and no separator.
    """

    name: str
    decimals: Counter[str] = field(default_factory=Counter)
    groups: Counter[str] = field(default_factory=Counter)
    undecided: Counter[str] = field(default_factory=Counter)
    long: int = 0

    def __bool__(self) -> bool:
        return bool(self.decimals or self.groups or self.undecided)

    def count(self, value: str) -> bool:
        """Count the separators of a value. Return False if it is no number."""
        if match := _SEVERAL.fullmatch(value) or _OTHER_GROUP.fullmatch(value):
            self.groups[_blank(match["group"])] += 1
        elif (match := _BOTH.fullmatch(value)) and match["group"] != match["decimal"]:
            self.groups[_blank(match["group"])] += 1
            self.decimals[match["decimal"]] += 1
        elif match := _OPEN.fullmatch(value):
            self.undecided[match["sign"]] += 1
        elif match := _DECIMAL.fullmatch(value):
            self.decimals[match["decimal"]] += 1
        elif _PLAIN.fullmatch(value):
            self.long += len(value.lstrip("+-")) > 3
        else:
            return False
        return True

    def add(self, other: "_Separators") -> None:
        self.decimals += other.decimals
        self.groups += other.groups
        self.undecided += other.undecided
        self.long += other.long

    def settle(self) -> None:
        """Decide values like 1.234 by those beside them that have one reading only."""
        for sign, count in list(self.undecided.items()):
            other_groups = any(self.groups[group] for group in self.groups if group != sign)
            if self.decimals[sign]:
                self.decimals[sign] += count
            elif self.groups[sign] or self.decimals[_other(sign)]:
                self.groups[sign] += count
            elif other_groups:
                self.decimals[sign] += count
            else:
                continue
            del self.undecided[sign]


@dataclass
class _Column:
    """Separators of the numbers of a column, and its negative values that have no minus before them.

    ``signed`` are the separators of these values, ``signs`` their numbers by the way in which they are written;
    ``has_clear_sign``: one of them can hardly be a code or a mark.
    """

    name: str
    separators: _Separators
    signed: _Separators
    signs: Counter[str] = field(default_factory=Counter)
    has_clear_sign: bool = False


def detect_numbers(columns: Mapping[str, Sequence[str]], delimiter: str) -> tuple[dict[str, Any], list[Question]]:
    """Return the options of numbers that are not written in the standard way, and what is open.

    The options are ``decimal_separator``, ``thousands_separator`` and ``negative_numbers``.
    """
    read = [column for name, values in columns.items() if (column := _column(name, values)) is not None]
    unclear = [column for column in read if not column.has_clear_sign]
    for column in read:
        if column.has_clear_sign:
            column.separators.add(column.signed)
    # Values that are rather codes decide the separators only if no other value shows any.
    if not any(column.separators for column in read):
        for column in unclear:
            column.separators.add(column.signed)
    for column in read:
        column.separators.settle()
    of_numbers = [column.separators for column in read]
    if not any(column.decimals for column in of_numbers) and any(column.undecided for column in of_numbers):
        names = {column.name for column in read}
        of_numbers += _of_marked({name: values for name, values in columns.items() if name not in names})
    separators, questions = _separators(of_numbers, delimiter)
    negative, of_signs = _negative_numbers([column for column in read if column.signs])
    return separators | negative, [*questions, *of_signs]


def unread_numbers(columns: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the columns of numbers of which no format reads some: they stay texts."""
    return tuple(name for name, values in columns.items() if _has_unread_numbers(values))


def _has_unread_numbers(values: Sequence[str]) -> bool:
    texts = [value.strip() for value in values]
    return any(map(_UNREAD.fullmatch, texts)) and all(kind_of(text) in (EMPTY, NUMBER) for text in texts)


def _negative_numbers(columns: Sequence[_Column]) -> tuple[dict[str, Any], list[Question]]:
    """Return ``negative_numbers`` of columns that have a minus after numbers or brackets, and what is open."""
    if not columns:
        return {}, []
    # Codes and marks of one column are written in one way.
    clear = [column for column in columns if column.has_clear_sign or len(column.signs) > 1]
    unclear = [column for column in columns if column not in clear]
    ways = list(dict.fromkeys((*_ways(clear), *_ways(unclear))))
    reasons = []
    if len(ways) > 1:
        verb = "may have" if unclear else "have" if len(columns) > 1 else "has"
        names = first_names([column.name for column in columns])
        reasons.append(f"{names} {verb} negative numbers of two kinds; only one can be read")
    if unclear or not reasons:
        reasons.append(
            f"{first_names([column.name for column in unclear or clear])} may have negative numbers, or marks and codes"
        )
    options = {"negative_numbers": ways[0]} if clear else {}
    candidates = (*ways, None) if clear else (None, *ways)
    return options, [Question("negative_numbers", candidates, "; ".join(reasons))]


def _ways(columns: Sequence[_Column]) -> list[str]:
    """Return the ways in which negative values are written, the most frequent first."""
    return [way for way, _ in sum((column.signs for column in columns), Counter[str]()).most_common()]


def _separators(read: Sequence[_Separators], delimiter: str) -> tuple[dict[str, Any], list[Question]]:
    """Return ``decimal_separator`` and ``thousands_separator`` unless they are the defaults, and what is open."""
    decimals = {sign: [column.name for column in read if column.decimals[sign]] for sign in ".,"}
    groups = Counter(sign for column in read for sign in column.groups if column.groups[sign])
    questions: list[Question] = []
    decimal = _decimal(decimals, groups, questions)
    # Where the decimals have the same sign in another column, a number of this one may still be a whole one.
    undecided = [column for column in read if column.undecided and (decimal is None or column.undecided[decimal])]
    # Between commas, a point that separates decimals does not group digits, too.
    if delimiter == "," and decimal == "." and not groups["."]:
        undecided = []
    if undecided and not questions:
        return _undecided(undecided, decimal, groups, delimiter)
    decimal = decimal or "."
    if any(column.undecided[_other(decimal)] for column in read):
        groups[_other(decimal)] += 1
    del groups[decimal]
    group = groups.most_common(1)[0][0] if groups else ""
    candidates: tuple[str | None, ...]
    if len(groups) > 1:
        candidates = tuple(sign for sign, _ in groups.most_common())
        questions.append(Question("thousands_separator", candidates, "the columns have several of them"))
    elif questions:
        candidates = tuple(dict.fromkeys((group or None, None, *(sign for sign in ".," if sign != decimal))))
        questions.append(Question("thousands_separator", candidates, "it depends on the decimal separator"))
    return _options(decimal, group), questions


def _options(decimal: str, group: str) -> dict[str, Any]:
    options: dict[str, Any] = {"decimal_separator": ","} if decimal == "," else {}
    return options | ({"thousands_separator": group} if group else {})


def _decimal(decimals: Mapping[str, list[str]], groups: Counter[str], questions: list[Question]) -> str | None:
    """Return the decimal separator; None if no value shows it. Add a question if columns differ."""
    point, comma = decimals["."], decimals[","]
    if point and comma:
        likely, other = (",", ".") if len(comma) > len(point) else (".", ",")
        names, others = first_names(decimals[likely]), first_names(decimals[other])
        reason = f"{names} has {likely!r} before the decimals, {others} {other!r}"
        questions.append(Question("decimal_separator", (likely, other), reason))
        return likely
    if point or comma:
        return "." if point else ","
    if groups["."] and groups[","]:
        questions.append(Question("decimal_separator", (".", ","), "both separate groups of three digits"))
        return "."
    return "," if groups["."] else "." if groups[","] else None


def _undecided(
    columns: Sequence[_Separators], known: str | None, groups: Counter[str], delimiter: str
) -> tuple[dict[str, Any], list[Question]]:
    """Return the likelier separators for numbers like 1.234, and the questions.

    ``known`` is the decimal separator of another column, ``groups`` are the signs between digits of other columns.
    """
    signs = sum((column.undecided for column in columns), Counter[str]())
    sign = signs.most_common(1)[0][0]
    # Among numbers of four digits and more without a sign, or beside another separator, it has decimals after it.
    is_decimal = known == sign or bool(groups) or all(column.long for column in columns)
    is_group = not is_decimal and ((sign == ".") == (delimiter == ";") or len(signs) > 1)
    group = next(iter(groups), sign if is_group else "")
    decimal = _other(sign) if is_group else sign
    reason = f"1{sign}234 in {first_names([column.name for column in columns])} may be 1234, or 1 and 234 thousandths"
    decimals = (decimal, _other(decimal))
    # The sign is one of both: of two readings, one has it before decimals, the other between groups of digits.
    candidates = tuple(dict.fromkeys((group or None, sign, *(_other(each) for each in signs if len(signs) > 1), None)))
    questions = [Question("decimal_separator", decimals, reason), Question("thousands_separator", candidates, reason)]
    return _options(decimal, group), questions


def _column(name: str, values: Sequence[str]) -> _Column | None:
    """Return what the numbers of a column show; None if it has other values."""
    column, count, others = _Column(name, _Separators(name), _Separators(name)), 0, 0
    has_days = is_of_dates(name)
    for text in values:
        value = text.strip()
        if kind_of(value) == EMPTY or (value[0] in "-=_" and is_drawn((value,))):
            continue
        match = SIGNED.fullmatch(value)
        if match is None:
            is_number = not (has_days and _DAY.fullmatch(value)) and column.separators.count(value)
        else:
            way = match.lastgroup or ""
            number = match[way]
            is_number = column.signed.count(number)
            column.signs[way] += 1
            column.has_clear_sign |= sum(sign.isdigit() for sign in number) > 2
        count += is_number
        others += not is_number
    # Values that all have a sign are rather codes.
    column.has_clear_sign &= column.signs.total() < count
    return column if count and others <= 0.05 * (count + others) else None


def _of_marked(columns: Mapping[str, Sequence[str]]) -> list[_Separators]:
    """Return the separators of columns of amounts with a currency or percent sign, which are texts."""
    read = []
    for name, values in columns.items():
        separators = _Separators(name)
        present = [value.strip() for value in values if kind_of(value) != EMPTY]
        matches = [_MARKED.fullmatch(value) for value in present]
        is_marked = any(match is not None and match[1] != match[0] for match in matches)
        if is_marked and all(match is not None and separators.count(match[1]) for match in matches):
            read.append(separators)
    return [separators for separators in read if separators.decimals]


def _blank(sign: str) -> str:
    return " " if sign in _BLANKS else sign


def _other(sign: str) -> str:
    return "," if sign == "." else "."
