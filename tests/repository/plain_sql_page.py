"""Page of operations by dialect, written from the rules.

``python -m tests.repository.plain_sql_page > docs/understand/plain_sql_operations.md`` writes it.
"""

from collections.abc import Callable
from pathlib import Path

from loader.dialects.catalog import DIALECTS
from loader.dialects.dialect import IN_PLACE, NO_CHANGE, Dialect, temporary_name
from loader.dialects.refusals import NotRendered
from metadata.domain.types import NAMES, parse

PAGE = Path(__file__).resolve().parents[2] / "docs" / "understand" / "plain_sql_operations.md"
TABLE, COLUMN = "s.t", "a"
NEW_TABLE = temporary_name("new", TABLE)
_MEASURED = {"string": "string", "decimal": "decimal(10,2)"}
_WIDENINGS = (
    ("integer", "bigint"),
    ("integer", "decimal(12,2)"),
    ("integer", "float"),
    ("integer", "string"),
    ("decimal(10,2)", "decimal(12,2)"),
    ("decimal(10,2)", "decimal(12,4)"),
    ("string(20)", "string(40)"),
    ("date", "timestamp"),
    ("timestamp", "string"),
    ("float", "string"),
)


def page() -> str:
    """Return the page as text."""
    return "\n".join(
        [
            "# Plain SQL: operations by dialect",
            "",
            "`python -m tests.repository.plain_sql_page > docs/understand/plain_sql_operations.md` writes this page "
            "from the rules in `loader/dialects`; a test fails when it is out of date. How the statements are made: "
            "[plain_sql.md](plain_sql.md).",
            "",
            "## Evidence",
            "",
            "| dialect | evidence | source | a load is |",
            "|---|---|---|---|",
            *map(_evidence, DIALECTS.values()),
            "",
            "A statement that no test executes has the comment `-- not executed in tests`.",
            "",
            "## Types",
            "",
            _table("type", [(name, lambda d, n=name: f"`{d.type_of(parse(_MEASURED.get(n, n)))}`") for name in NAMES]),
            "",
            "## Hashed values",
            "",
            "Whether the canonical text of a type can be written, which every hash needs.",
            "",
            _table("type", [(name, lambda d, n=name: _hashed(d, n)) for name in NAMES]),
            "",
            "## Values of texts",
            "",
            "Whether a text is read as a type: raw columns of files are texts.",
            "",
            _table("type", [(name, lambda d, n=name: _read(d, n)) for name in NAMES]),
            "",
            "## Tables and columns",
            "",
            _table("operation", list(_OPERATIONS.items())),
            "",
            "## Wider types",
            "",
            "*in place*: an ALTER. *nothing*: the same physical type. *rebuild*: a new table, with checked casts.",
            "",
            _table("change", [(f"{b} → {a}", lambda d, b=b, a=a: _widening(d, b, a)) for b, a in _WIDENINGS]),
        ]
    )


def _evidence(dialect: Dialect) -> str:
    evidence = "executed" if dialect.executed else "documented"
    source = f"`{dialect.source}`" if dialect.executed else f"<{dialect.source}>"
    unit = "one transaction" if dialect.atomic == "transaction" else "a MERGE for each table"
    return f"| {dialect.title} | {evidence} | {source} | {unit} |"


def _table(corner: str, rows: list[tuple[str, Callable[[Dialect], str]]]) -> str:
    titles = " | ".join(dialect.title for dialect in DIALECTS.values())
    lines = [f"| {corner} | {titles} |", "|---" * (len(DIALECTS) + 1) + "|"]
    lines += [f"| {name} | {' | '.join(_cell(cell, d) for d in DIALECTS.values())} |" for name, cell in rows]
    return "\n".join(lines)


def _cell(cell: Callable[[Dialect], str], dialect: Dialect) -> str:
    try:
        return cell(dialect)
    except NotRendered:
        return "refused"


def _code(statements: list[str]) -> str:
    return "; ".join(map(_span, statements))


def _span(statement: str) -> str:
    """Return a statement as code of Markdown, between double backticks if it contains one."""
    text = " ".join(statement.split()).replace("|", "\\|")
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _or_rebuild(statements: Callable[[], list[str]]) -> str:
    try:
        return _code(statements())
    except NotRendered:
        return "rebuild"


_OPERATIONS: dict[str, Callable[[Dialect], str]] = {
    "rename table": lambda d: _code(d.rename_table(TABLE, "s.u")),
    "move table": lambda d: _code(d.rename_table(TABLE, "r.t")),
    "add column": lambda d: _code(d.add_column(TABLE, COLUMN, "date")),
    "rename column": lambda d: _or_rebuild(lambda: d.rename_column(TABLE, COLUMN, "b")),
    "drop column": lambda d: _or_rebuild(lambda: d.drop_column(TABLE, COLUMN)),
    "drop table": lambda d: _code([d.drop_table(TABLE)]),
    "rebuild table": lambda d: _code(d.replace_table(TABLE, [(COLUMN, "date")], "SELECT …", NEW_TABLE)),
}


def _hashed(dialect: Dialect, name: str) -> str:
    dialect.canonical("v", parse(_MEASURED.get(name, name)))
    return "yes"


def _read(dialect: Dialect, name: str) -> str:
    dialect.text_value("v", parse(_MEASURED.get(name, name)))
    return "yes"


def _widening(dialect: Dialect, before: str, after: str) -> str:
    old, new = parse(before), parse(after)
    way = dialect.widening(old, new)
    if way == NO_CHANGE:
        return "nothing"
    dialect.cast("v", old, new)
    return "in place" if way == IN_PLACE else "rebuild"


if __name__ == "__main__":
    print(page())
