"""Tables of the documentation that are generated from the code; after a change, print them into their pages."""

from collections.abc import Iterable, Sequence
from typing import Any

from architecture.domain import type_changes
from architecture.domain.type_changes import ALTER, EQUIVALENT, INCOMPATIBLE, NARROWER, REBUILD, RULES
from metadata.domain.sources import formats
from metadata.domain.sources.formats import FILE_FORMATS, FORMATS, NAMES, TEXT_FORMATS
from metadata.domain.sources.options import Option
from metadata.domain.types import DECIMAL, STRING
from metadata.domain.types import NAMES as TYPE_NAMES


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = (head, ("---",) * len(head), *rows)
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def code_list(names: Iterable[str]) -> str:
    """Return names as code, with commas between."""
    return ", ".join(f"`{name}`" for name in names)


# Reader of each format, and the origin of the types of its columns.
READERS = {
    formats.CSV: ("Spark, by records", "inferred from every value"),
    formats.FIXED: ("Spark, by lines", "inferred from every value"),
    formats.JSONL: ("Spark, by lines", "JSON's own, then the values"),
    formats.JSON: ("a task per file, 256 MB at most", "inferred from every value"),
    formats.XML: ("a task per file, 1 GB at most", "inferred from every value"),
    formats.XLSX: ("a task per file, 64 MB at most", "inferred from every value"),
    formats.PARQUET: ("Spark by columns, or a task per file", "the file's"),
    formats.ORC: ("Spark, by columns", "the file's"),
    formats.AVRO: ("Spark (`spark-avro`), by blocks", "the file's"),
}


def formats_table() -> str:
    """Return the formats of files as a Markdown table for the documentation."""
    rows = [
        (f"`{entry.name}`", entry.label, code_list(entry.endings), *READERS[entry.name])
        for entry in FORMATS
        if entry.name in FILE_FORMATS
    ]
    return markdown_table(("format", "content", "endings", "read by", "types"), rows)


_GROUPS = {NAMES: "all", FILE_FORMATS: "all files", TEXT_FORMATS: "text: " + code_list(TEXT_FORMATS)}


def options_table(options: Iterable[Option]) -> str:
    """Return options as a Markdown table for the documentation."""
    rows = [
        (
            f"`{option.name}`",
            _GROUPS.get(option.formats) or code_list(option.formats),
            option.kind.description,
            _default(option),
            option.example,
            option.meaning,
        )
        for option in options
    ]
    return markdown_table(("option", "formats", "type", "default", "example", "meaning"), rows)


def _default(option: Option) -> str:
    if option.required:
        return "needed"
    others = [f"{_shown(value)} for {name}" for name, value in option.default_in.items()]
    return "; ".join([_shown(option.default), *others])


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


_SIGNS = {EQUIVALENT: "=", ALTER: "alter", REBUILD: "rebuild", NARROWER: "narrower", INCOMPATIBLE: "–"}


def type_changes_table() -> str:
    """Return the table as Markdown: a row for each type before, a column for each type after, conditions as notes."""
    notes: dict[str, int] = {}
    rows = []
    for before in TYPE_NAMES:
        cells = [_change(before, after, notes) for after in TYPE_NAMES]
        rows.append(f"| **{before}** | " + " | ".join(cells) + " |")
    lines = [
        "| from \\ to | " + " | ".join(TYPE_NAMES) + " |",
        "|---" * (len(TYPE_NAMES) + 1) + "|",
        *rows,
        "",
        "`alter`: wider, by ALTER, no row is read. `rebuild`: wider, by a verified rebuild. `narrower`: values may "
        "not fit or lose digits. `–`: incompatible. `=`: nothing to do.",
        "",
        *(f"{number}. {note}." for note, number in notes.items()),
    ]
    return "\n".join(lines)


def _change(before: str, after: str, notes: dict[str, int]) -> str:
    rule = RULES.get((before, after)) or type_changes._INCOMPATIBLE.get((before, after))
    if rule is None:
        return _SIGNS[EQUIVALENT]
    if not rule.measure:
        return _SIGNS[rule.change]
    message = f"to {after} {rule.measure}, otherwise {rule.otherwise}"
    if before == STRING == after or before == DECIMAL == after:
        message = f"{message}; the same measures are equivalent"
    number = notes.setdefault(message, len(notes) + 1)
    return f"{_SIGNS[rule.change]} ({number})"
