"""Separators and signs of numbers, by the values of all columns."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from loader.domain.sources.file_detection.cells import EMPTY, kind_of
from loader.domain.sources.file_detection.model import Question
from metadata.domain.sources.value_formats import BRACKETS, TRAILING

_BLANKS = " \u00a0\u202f"
_GROUPS = r"\d{1,3}(?P<group>[.,'’_ \u00a0\u202f])\d{3}(?:(?P=group)\d{3})*"
_BOTH = re.compile(rf"[-+]?{_GROUPS}(?P<decimal>[.,])\d+")
_SEVERAL = re.compile(r"[-+]?\d{1,3}(?P<group>[.,'’_ \u00a0\u202f])\d{3}(?:(?P=group)\d{3})+")
_OTHER_GROUP = re.compile(r"[-+]?\d{1,3}(?P<group>['’_ \u00a0\u202f])\d{3}")
_OPEN = re.compile(r"[-+]?[1-9]\d{0,2}(?P<sign>[.,])\d{3}")
# A number does not begin with a zero before other digits; codes like 01.11 do.
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9]\d*)?(?P<decimal>[.,])\d+(?:[eE][-+]?\d+)?")
# Negative numbers like 12,50- and (12.50).
SIGNED = re.compile(r"(?!\(?0\d)(?:(?P<trailing>[\d.,](?:[^()]*\d)?)-|\((?P<brackets>[\d.,][^()]*)\))")
_PLAIN = re.compile(r"[-+]?\d+(?:[eE][-+]?\d+)?")


@dataclass
class _Column:
    """Numbers of a column: separators that they show, and the number of values that leave a separator open.

    ``long`` is the number of those with more than three digits and no separator. ``signs`` are the numbers of negative
    values by the way in which they are written, if not by a minus before them; ``has_clear_sign``: one of them can
    hardly be a code or a mark.
    """

    name: str
    decimals: Counter[str] = field(default_factory=Counter)
    groups: Counter[str] = field(default_factory=Counter)
    undecided: Counter[str] = field(default_factory=Counter)
    long: int = 0
    signs: Counter[str] = field(default_factory=Counter)
    has_clear_sign: bool = False

    @property
    def has_separators(self) -> bool:
        return bool(self.decimals or self.groups or self.undecided)

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


def detect_numbers(columns: Mapping[str, Sequence[str]], delimiter: str) -> tuple[dict[str, Any], list[Question]]:
    """Return the options of numbers that are not written in the standard way, and what is open.

    The options are ``decimal_separator``, ``thousands_separator`` and ``negative_numbers``.
    """
    read = [column for name, values in columns.items() if (column := _column(name, values)) is not None]
    for column in read:
        column.settle()
    # Values that are rather codes decide the separators only if no other column shows any.
    clear = [column for column in read if not column.signs or column.has_clear_sign]
    separators, questions = _separators(clear if any(column.has_separators for column in clear) else read, delimiter)
    negative, of_signs = _negative_numbers([column for column in read if column.signs])
    return separators | negative, [*questions, *of_signs]


def _negative_numbers(columns: Sequence[_Column]) -> tuple[dict[str, Any], list[Question]]:
    """Return ``negative_numbers`` of columns that have a minus after numbers or brackets, and what is open."""
    ways = sum((column.signs for column in columns), Counter[str]())
    if not ways:
        return {}, []
    likely = [way for way, _ in ways.most_common()]
    options = {"negative_numbers": likely[0]}
    names = _names([column.name for column in columns])
    if len(likely) > 1:
        reason = f"{names} have negative numbers of two kinds; only one can be read"
        return options, [Question("negative_numbers", (*likely, None), reason)]
    reason = f"{names} may have negative numbers, or marks and codes"
    if all(column.has_clear_sign for column in columns):
        return options, [Question("negative_numbers", (*likely, None), reason)]
    return {}, [Question("negative_numbers", (None, *likely), reason)]


def _separators(read: Sequence[_Column], delimiter: str) -> tuple[dict[str, Any], list[Question]]:
    """Return ``decimal_separator`` and ``thousands_separator`` unless they are the defaults, and what is open."""
    decimals = {sign: [column.name for column in read if column.decimals[sign]] for sign in ".,"}
    groups = Counter(sign for column in read for sign in column.groups if column.groups[sign])
    questions: list[Question] = []
    decimal = _decimal(decimals, groups, questions)
    # Where the decimals have the same sign in another column, a number of this one may still be a whole one.
    undecided = [column for column in read if column.undecided and (decimal is None or column.undecided[decimal])]
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
        reason = f"{_names(decimals[likely])} has {likely!r} before the decimals, {_names(decimals[other])} {other!r}"
        questions.append(Question("decimal_separator", (likely, other), reason))
        return likely
    if point or comma:
        return "." if point else ","
    if groups["."] and groups[","]:
        questions.append(Question("decimal_separator", (".", ","), "both separate groups of three digits"))
        return "."
    return "," if groups["."] else "." if groups[","] else None


def _undecided(
    columns: Sequence[_Column], known: str | None, groups: Counter[str], delimiter: str
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
    reason = f"1{sign}234 in {_names([column.name for column in columns])} may be 1234, or 1 and 234 thousandths"
    decimals = (decimal, _other(decimal))
    # The sign is one of both: of two readings, one has it before decimals, the other between groups of digits.
    candidates = tuple(dict.fromkeys((group or None, sign, *(_other(each) for each in signs if len(signs) > 1), None)))
    questions = [Question("decimal_separator", decimals, reason), Question("thousands_separator", candidates, reason)]
    return _options(decimal, group), questions


def _column(name: str, values: Sequence[str]) -> _Column | None:
    """Return what the numbers of a column show; None if it has other values."""
    column, count = _Column(name), 0
    for text in values:
        value = text.strip()
        if kind_of(value) == EMPTY:
            continue
        count += 1
        if match := SIGNED.fullmatch(value):
            way = TRAILING if match["trailing"] else BRACKETS
            value = match["trailing"] or match["brackets"]
            column.signs[way] += 1
            column.has_clear_sign |= sum(sign.isdigit() for sign in value) > 2
        if match := _SEVERAL.fullmatch(value) or _OTHER_GROUP.fullmatch(value):
            column.groups[_blank(match["group"])] += 1
        elif (match := _BOTH.fullmatch(value)) and match["group"] != match["decimal"]:
            column.groups[_blank(match["group"])] += 1
            column.decimals[match["decimal"]] += 1
        elif match := _OPEN.fullmatch(value):
            column.undecided[match["sign"]] += 1
        elif match := _DECIMAL.fullmatch(value):
            column.decimals[match["decimal"]] += 1
        elif _PLAIN.fullmatch(value):
            column.long += len(value.lstrip("+-")) > 3
        else:
            count -= 1
            column.groups["other"] += 1
    others = column.groups.pop("other", 0)
    # Values that all have a sign are rather codes.
    column.has_clear_sign &= column.signs.total() < count
    return column if count and others <= 0.05 * (count + others) else None


def _blank(sign: str) -> str:
    return " " if sign in _BLANKS else sign


def _other(sign: str) -> str:
    return "," if sign == "." else "."


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
