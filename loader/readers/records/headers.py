"""Names of columns in the header of a delivery."""

from collections.abc import Callable, Sequence

from loader.contract.refusals import Refusal
from loader.domain.sources.headers import column_names


def header_names(shown: str, fields: Sequence[str], row: int = 1, *, numbered: bool = False) -> tuple[str, ...]:
    """Return a header's names without surrounding blanks; a column without a name is named by its position.

    A line break in a name is a blank. ``numbered``: a repeated name gets a number by its position.
    Raise Refusal EMPTY_FILE, UNREADABLE_HEADER or DUPLICATE_COLUMN.
    """
    if not fields:
        raise Refusal(
            "EMPTY_FILE",
            f"{shown} is empty: it has not even a header",
            file=shown,
            hint="A delivery without rows still names its columns in its first line.",
        )
    for place, field in enumerate(fields, start=1):
        if "\0" in field:
            raise Refusal(
                "UNREADABLE_HEADER",
                f"{shown}: the name of column {place} in the header has a NUL byte",
                file=shown,
                row=row,
                hint="The file may be UTF-16 or no text: say its encoding in the source's options, or deliver another.",
            )
    names = column_names(fields, numbered=numbered)
    if repeated := tuple(name for name, *_ in _repeated(names)):
        raise Refusal(
            "DUPLICATE_COLUMN",
            f"{shown}: the header names {', '.join(repeated[:5])} more than once",
            file=shown,
            row=row,
            column=repeated[0],
            count=len(repeated),
            samples=repeated[:5],
            hint="Every column needs a name of its own: ask for another delivery, let the option repeated_names of "
            "CSV number them, or say that the file has no header.",
        )
    return names


def _repeated(names: Sequence[str], key: Callable[[str], str] = str) -> list[list[str]]:
    """Return the names that are equal by ``key``, those of each key together, in the order of their first ones."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(key(name), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def repeated_fields(names: Sequence[str]) -> str:
    """Return why Spark cannot read a struct with fields whose names differ in case only; empty if it has none."""
    first = next(iter(_repeated(names, str.lower)), [])
    return f"a struct with the fields {' and '.join(first[:2])}, which differ in case at most" if first else ""


def check_typed_names(shown: str, names: Sequence[str]) -> None:
    """Raise Refusal DUPLICATE_COLUMN if names of a typed file are equal, except for the case of their letters."""
    if repeated := tuple(dict.fromkeys(name for group in _repeated(names, str.lower) for name in group)):
        raise Refusal(
            "DUPLICATE_COLUMN",
            f"{shown}: the file has several columns {', '.join(repeated[:5])}, which differ in case at most",
            file=shown,
            column=repeated[0],
            count=len(repeated),
            samples=repeated[:5],
            hint="Columns of typed files need names that differ in more than upper and lower case: ask for another "
            "delivery.",
        )
