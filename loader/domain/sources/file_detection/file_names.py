"""Dates in the names of files: the pattern of such names, and the name without a date."""

import re

_YEAR, _MONTH, _DAY = r"(?:19|20)\d{2}", r"(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12]\d|3[01])"
_CLOCK = r"(?:[T_-]?(?:[01]\d|2[0-3])[-_.:]?[0-5]\d(?:[-_.:]?[0-5]\d)?)?"
_DATE = re.compile(
    rf"(?<!\d)(?:{_YEAR}([-_.]?){_MONTH}\1{_DAY}{_CLOCK}|{_DAY}([-_.]){_MONTH}\2{_YEAR}{_CLOCK}|{_DAY}{_MONTH}{_YEAR}|"
    rf"{_YEAR}[-_]?(?:KW|W|CW)(?:0[1-9]|[1-4]\d|5[0-3])|{_YEAR}[-_.]?Q[1-4]|{_YEAR}[-_.]{_MONTH})(?!\d)",
    re.IGNORECASE,
)


def dated_name(name: str) -> tuple[str, str]:
    """Return pattern and name of files like ``customers_2026-11-01.csv``: ``customers_*.csv`` and ``customers``.

    The pattern is empty for a name without a date.
    """
    folder, _, file = name.rpartition("/")
    stem = file.partition(".")[0] or file
    match = _DATE.search(file)
    if match is None:
        return "", stem
    pattern = f"{file[: match.start()]}*{file[match.end() :]}"
    after = file[match.end() :]
    rest = after.partition(".")[0] if "." in after else ""
    short = re.sub(r"[-_. ]{2,}", "_", f"{file[: match.start()].rstrip('-_. ')}_{rest.lstrip('-_. ')}").strip("-_. ")
    return (f"{folder}/{pattern}" if folder else pattern), short or stem


_PATTERN = re.compile(r"[-_. ]*(?:[*?]|\[[^\]]*\]|\{[^}]*\})+[-_. ]*")


def source_name(location: str) -> str:
    """Return the name of a source of this location: the name of its files without date, pattern and ending."""
    stem = dated_name(location)[1]
    # Of a directive like {date:%Y.%m}, the part after the point is no ending.
    file = location.rpartition("/")[2]
    if "{" in file:
        stem = dated_name(_PATTERN.sub("_", file))[1]
    return _PATTERN.sub("_", stem).strip("-_. ") or stem
