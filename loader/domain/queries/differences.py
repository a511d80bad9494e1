"""Texts of differences between two sets of rows, as tables for a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from elevata.core.words import counted
from loader.domain.queries.exports import sides_of
from loader.domain.queries.query_results import text_table, value_text

ADDED, CHANGED, GONE, SAME = "added", "changed", "gone", "same"
# Signs of rows, as in a diff.
SIGNS = {ADDED: "+", CHANGED: "~", GONE: "-"}


def difference_text(difference: Mapping[str, Any]) -> str:
    """Return a model's difference (``loader.engine.queries.differences``) as text: counts, columns and rows."""
    shown = part_shown(difference)
    text = "".join(f"{line}\n" for line in _heading(difference)) + _sample_table(difference["samples"])
    return f"{text}\n{shown}\n" if shown else text


def difference_rows(difference: Mapping[str, Any]) -> tuple[list[str], list[list[str | None]]]:
    """Return the columns and the sample rows of a difference, with values before and after."""
    samples = difference["samples"]
    absent = [None] * len(samples["columns"])
    rows = [(ADDED, absent, row) for row in samples[ADDED]]
    rows += [(CHANGED, row["before"], row["after"]) for row in samples[CHANGED]]
    rows += [(GONE, row, absent) for row in samples[GONE]]
    values = [[kind, *map(value_text, (*before, *after))] for kind, before, after in rows]
    return difference_header(samples["columns"]), values


def difference_header(columns: Sequence[str]) -> list[str]:
    """Return the header of a CSV file of rows that differ: kind, then values before and after."""
    return ["row", *sides_of(columns)]


def part_shown(difference: Mapping[str, Any]) -> str:
    """Return a sentence for a difference whose samples are not all rows that differ; empty if they are."""
    total, shown = _numbers(difference)
    if shown >= total:
        return ""
    exported = difference.get("exported", 0)
    in_file = "" if not exported else "all of them" if exported >= total else f"the first {exported:,}"
    sentence = f"Shown are {shown:,} of {total:,} rows that differ, the first of each kind."
    return f"{sentence} The CSV file has {in_file}." if in_file else sentence


def is_file_cut(difference: Mapping[str, Any]) -> bool:
    """Return True if the CSV file of a comparison has not all rows that differ."""
    total, shown = _numbers(difference)
    exported: int = difference.get("exported", 0)
    return max(shown, exported) < total


def _numbers(difference: Mapping[str, Any]) -> tuple[int, int]:
    """Return the number of rows that differ, and of those among the samples."""
    kinds = (ADDED, CHANGED, GONE)
    total = sum(difference["rows"][kind] for kind in kinds)
    return total, sum(len(difference["samples"][kind]) for kind in kinds)


def _heading(difference: Mapping[str, Any]) -> Iterable[str]:
    rows, columns, key = difference["rows"], difference["columns"], difference["key"]
    version = difference["table_version"]
    at = "which has no table yet" if version is None else f"version {version}"
    yield f"{difference['table']}, {at}, compared by {', '.join(key) if key else 'whole rows'}"
    yield ", ".join(f"{rows[kind]:,} {kind}" for kind in (ADDED, CHANGED, GONE, SAME))
    for kind in (ADDED, GONE):
        for column in columns[kind]:
            yield f"column {column['name']} ({column['type']}) is {kind}"
    for column in columns["retyped"]:
        yield f"column {column['name']} becomes {column['after']} (was {column['before']})"
    for name in columns["left_out"]:
        yield f"column {name} is masked for you and not compared"
    for name, count in difference["changed"].items():
        yield f"{name} differs in {counted(count, 'row')}"
    if difference["repeated_keys"]:
        repeated = counted(difference["repeated_keys"], "key")
        yield f"{repeated} of the SELECT in more than one row: a load would be refused"


def _sample_table(samples: Mapping[str, Any]) -> str:
    rows = [[SIGNS[kind], *map(value_text, row)] for kind in (ADDED, GONE) for row in samples[kind]]
    rows += [[SIGNS[CHANGED], *changed_values(row["before"], row["after"])] for row in samples[CHANGED]]
    return "\n" + text_table(["", *samples["columns"]], rows) if rows else ""


def changed_values(before: Sequence[Any], after: Sequence[Any]) -> list[str | None]:
    """Return the values of a row as text; a changed one as ``before → after``."""
    return [
        value_text(new) if old == new else f"{_shown(old)} → {_shown(new)}"
        for old, new in zip(before, after, strict=True)
    ]


def _shown(value: Any) -> str:
    text = value_text(value)
    return "NULL" if text is None else text
