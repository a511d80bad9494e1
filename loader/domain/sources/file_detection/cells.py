"""Kinds of texts in cells, whatever the separators and formats of a file."""

import re

from metadata.domain.sources.value_formats import MONTH_NUMBERS

EMPTY, NUMBER, DATE, TIME, CODE, TEXT = "empty", "number", "date", "time", "code", "text"
TYPED = frozenset({NUMBER, DATE, TIME, CODE})

# Currency before an amount, currency or percent sign after it.
CURRENCY, MARK = r"(?:[€$£¥] ?)?", r"(?: ?[%€$£¥]| ?(?:EUR|USD|CHF|GBP))?"
_SIGN, _SIGN_AFTER = r"(?:-[ \u00a0\u202f]|[-−+(])?", r"(?: ?[-)])?"
# Also with groups of two digits, as in India.
_WHOLE = r"(?:\d{1,2}(?:,\d{2})+,\d{3}|\d{1,3}(?:[.,'’_ \u00a0\u202f]\d{3})+|\d+)?"
_NUMBER = re.compile(rf"{CURRENCY}{_SIGN}{_WHOLE}(?:[.,]\d+)?(?:[eE][-+]?\d+)?{_SIGN_AFTER}{MARK}")
_MONTH = r"[A-Za-zÀ-ÿ]{3,9}\.?"
_CLOCK = (
    r"(?:[T: ]{1,3}\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AaPp]\.?[Mm]\.?)?(?: ?(?:Z|[+-]\d{2}:?\d{2}|UTC|GMT))?)?"
)
# Other letters between digits are rather those of a code.
_JOINED = rf"\d{{1,2}}(?i:{'|'.join(sorted(MONTH_NUMBERS, key=len, reverse=True))})(?:\d{{4}}|\d{{2}})"
_DATE = re.compile(
    rf"(?:\d{{1,4}}([-/.])\d{{1,2}}\1\d{{1,4}}|\d{{1,2}}[-. ]{{1,2}}{_MONTH}[-. ]{{1,2}}\d{{2,4}}|{_JOINED}|"
    rf"{_MONTH} \d{{1,2}},? \d{{4}}){_CLOCK}"
)
_TIME = re.compile(r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AaPp][Mm])?")
_CODE = re.compile(
    r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[^@\s]+@[^@\s]+\.[^@\s]+|https?://\S+|"
    r"\d{1,3}(?:\.\d{1,3}){3}"
)
# Characters of a number, an address or another code.
LONGEST = 320
_MISSING = frozenset(
    (
        *("-", "--", "–", "—", ".", "..", "...", "…", ":", "/", "?", "*", "**", "***", "****", "*****"),
        *("null", "(null)", "[null]", "<null>", "#null!", "none", "nil", "\\n"),
        *(
            "n/a",
            "n.a.",
            "na",
            "#n/a",
            "<na>",
            "nan",
            "nat",
            "n.v.",
            "#nv",
            "n/d",
            "n.d.",
            "nd",
            "#n/d",
            "k.a.",
            "k. a.",
        ),
        *("missing", "unknown", "unbekannt"),
        # Errors of spreadsheets.
        *("#div/0!", "#value!", "#ref!", "#name?", "#num!", "#wert!", "#bezug!", "#zahl!", "#valeur!", "#nombre!"),
    )
)


def kind_of(text: str) -> str:
    """Return the kind of a cell's text."""
    stripped = text.strip()
    if len(stripped) > LONGEST:
        return TEXT
    if not stripped or stripped.lower() in _MISSING:
        return EMPTY
    first = stripped[0]
    if first.isdigit() or first in "-−+(.,€$£¥":
        if _CODE.fullmatch(stripped):
            return CODE
        if _NUMBER.fullmatch(stripped) and any(sign.isdigit() for sign in stripped):
            return NUMBER
        if _TIME.fullmatch(stripped):
            return TIME
    if len(stripped) <= 40 and _DATE.fullmatch(stripped) and any(sign.isdigit() for sign in stripped):
        return DATE
    if _CODE.fullmatch(stripped):
        return CODE
    return TEXT


def is_missing(text: str) -> bool:
    """Return True for a word or sign that stands for no value, like NULL."""
    return text.strip().lower() in _MISSING
