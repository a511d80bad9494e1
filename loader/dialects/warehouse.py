"""Files of a warehouse in a dialect, in the format ``sql/v1``."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain
from typing import Any

from architecture.domain.dialect_statements import as_file
from architecture.domain.operations import Operation
from architecture.domain.tables import ColumnSpec, TableSpec
from loader.contract.manifest.loads import RawcoreLoad
from loader.dialects import runs
from loader.dialects.dialect import Dialect
from loader.dialects.loads import NOT_EXECUTED, RenderedLoad, render_load
from loader.dialects.refusals import NOT_RENDERED, NotRendered
from loader.dialects.views import View

FORMAT = "sql/v1"
# Version of a dataset's hashes, as datasets have it; a dataset with another one is not rendered.
HASH_VERSION = 1
TABLES, VIEWS, CHANGES, MANIFEST = "tables.sql", "views.sql", "changes.sql", "manifest.json"
# Columns of raw tables that the product fills from its own reading of files.
_OF_READING = frozenset({"source_file", "source_row", "load_day"})


@dataclass(frozen=True)
class Unrendered:
    """Dataset, object over one, or change of one without statements, with the reason."""

    dataset: str
    code: str
    message: str


@dataclass(frozen=True)
class Warehouse:
    """Tables in the order of their creation, views over them, and loads in the order in which they run.

    ``state`` is a digest of all datasets. ``not_rendered`` are datasets without a load and views without a query.
    ``changes`` are the operations of a report with their statements, None without a report.
    """

    state: str
    tables: tuple[TableSpec, ...]
    loads: tuple[RawcoreLoad, ...]
    views: tuple[View, ...] = ()
    not_rendered: tuple[Unrendered, ...] = ()
    changes: tuple[tuple[Operation, Sequence[str]], ...] | None = None


def delivered_table(raw: TableSpec) -> TableSpec:
    """Return a raw table as a caller fills it: the described columns, run and time, without those of file reading."""
    return replace(raw, columns=tuple(column for column in raw.columns if column.purpose not in _OF_READING))


@dataclass(frozen=True)
class Rendered:
    """Statements of a warehouse without their final semicolons; tables and views by name, loads by dataset.

    ``schemas`` are those of tables; the statement of a view begins with its schema if it has no table.
    """

    schemas: dict[str, str]
    tables: dict[str, str]
    views: dict[str, list[str]]
    loads: dict[str, RenderedLoad]
    not_rendered: tuple[Unrendered, ...]


def render_objects(warehouse: Warehouse, dialect: Dialect) -> Rendered:
    """Return the statements of each table, view and load, and what has none."""
    schemas, tables, refused = _tables(warehouse.tables, dialect)
    missing = {item.dataset for item in refused}
    loads, left_out = _loads(warehouse.loads, dialect, missing)
    views, without_query = _views(warehouse, dialect, missing)
    not_rendered = (*warehouse.not_rendered, *refused, *left_out, *without_query)
    return Rendered(schemas, tables, views, loads, not_rendered)


def render_warehouse(warehouse: Warehouse, dialect: Dialect) -> dict[str, str]:
    """Return the files by path. The same warehouse gives the same texts."""
    rendered = render_objects(warehouse, dialect)
    tables = [*rendered.schemas.values(), *rendered.tables.values()]
    views = list(chain.from_iterable(rendered.views.values()))
    files = {TABLES: _file(tables), VIEWS: _file(views)}
    files |= {_path(name): _file(load.statements) for name, load in rendered.loads.items()}
    if warehouse.changes is not None:
        files[CHANGES] = as_file(warehouse.changes)
    written = {"create_table": tables, "create_view": views, "load": rendered.loads}
    operations = [operation for operation, statements in written.items() if statements]
    changes, refused = _rendered_changes(warehouse.changes or ())
    operations += changes
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "dialect": dialect.name,
        "state": warehouse.state,
        "hash_version": HASH_VERSION,
        "loads": [_load_entry(name, load) for name, load in rendered.loads.items()],
        "not_rendered": [vars(item) for item in (*rendered.not_rendered, *refused)],
        "rules": [_rule(name, dialect) for name in dict.fromkeys(operations)],
        "files": {path: sha256(text.encode()).hexdigest() for path, text in sorted(files.items())},
    }
    return files | {MANIFEST: json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"}


def _rendered_changes(changes: Iterable[tuple[Operation, Sequence[str]]]) -> tuple[list[str], list[Unrendered]]:
    """Return the kinds of a report's operations with statements, and the operations with a part that has none.

    An operation whose statements are all among those of a later one has a comment about each of them.
    """
    kinds, refused, beginning = [], [], f"-- {NOT_RENDERED}: "
    for operation, texts in changes:
        reasons = [text.removeprefix(beginning) for text in texts if text.startswith(beginning)]
        kinds += [operation.op] if texts and not reasons else []
        refused += [Unrendered(operation.dataset, NOT_RENDERED, reason) for reason in reasons]
    return kinds, refused


def differences(expected: Mapping[str, str], present: Mapping[str, str]) -> list[str]:
    """Return the paths of files that are missing, differ, or are left from a former rendering."""
    return sorted(path for path in {*expected, *present} if expected.get(path) != present.get(path))


def _tables(specs: Iterable[TableSpec], dialect: Dialect) -> tuple[dict[str, str], dict[str, str], list[Unrendered]]:
    """Return the statements that create schemas and tables, and the tables that the dialect cannot have."""
    wanted = [(spec.qualified_name, _columns(spec.columns)) for spec in specs]
    if wanted:
        wanted.append((runs.TABLE, list(runs.COLUMNS)))
    schemas: dict[str, str] = {}
    creations: dict[str, str] = {}
    refused = []
    for name, columns in wanted:
        schema = name.partition(".")[0]
        try:
            creation = dialect.create_table(name, columns)
            schemas.setdefault(schema, _marked(dialect.create_schema(schema), dialect))
        except NotRendered as problem:
            refused.append(Unrendered(name, problem.code, problem.one_line()))
            continue
        creations[name] = _marked(creation, dialect)
    return schemas, creations, refused


def _columns(columns: Iterable[ColumnSpec]) -> list[tuple[str, str]]:
    return [(column.name, column.type) for column in columns]


def _loads(
    loads: Iterable[RawcoreLoad], dialect: Dialect, missing: Collection[str]
) -> tuple[dict[str, RenderedLoad], list[Unrendered]]:
    """Return the rendered loads by the dataset's name, in order, and those without statements."""
    rendered: dict[str, RenderedLoad] = {}
    left_out = []
    for load in loads:
        try:
            result = render_load(dialect, load)
            absent = [name for name in (*result.reads, *result.writes) if name in missing]
            if absent:
                raise NotRendered(f"the table {absent[0]} is not rendered", where=load.name)
        except NotRendered as problem:
            left_out.append(Unrendered(load.name, NOT_RENDERED, problem.one_line()))
            continue
        rendered[load.name] = result
    return rendered, left_out


def _views(
    warehouse: Warehouse, dialect: Dialect, missing: Collection[str]
) -> tuple[dict[str, list[str]], list[Unrendered]]:
    """Return the statements that create the views, with schemas that have no table, and the views without a query."""
    schemas = {spec.schema for spec in warehouse.tables}
    rendered = {spec.qualified_name for spec in warehouse.tables}.difference(missing)
    statements: dict[str, list[str]] = {}
    left_out = []
    for view in warehouse.views:
        schema = view.name.partition(".")[0]
        try:
            absent = [name for name in view.reads if name not in rendered]
            if absent:
                raise NotRendered(f"the table {absent[0]} is not rendered", where=view.name)
            creation = dialect.create_view(view.name, view.query(dialect))
        except NotRendered as problem:
            left_out.append(Unrendered(view.name, NOT_RENDERED, problem.one_line()))
            continue
        creations = creation if schema in schemas else [dialect.create_schema(schema), *creation]
        schemas.add(schema)
        statements[view.name] = [_marked(statement, dialect) for statement in creations]
    return statements, left_out


def _load_entry(name: str, load: RenderedLoad) -> dict[str, Any]:
    return {
        "dataset": name,
        "file": _path(name),
        "reads": list(load.reads),
        "writes": list(load.writes),
        "atomic": load.atomic,
    }


def _path(dataset: str) -> str:
    return f"loads/{dataset}.sql"


def _rule(operation: str, dialect: Dialect) -> dict[str, str]:
    evidence = "executed" if dialect.executed else "documented"
    return {"operation": operation, "evidence": evidence, "source": dialect.source}


def _marked(statement: str, dialect: Dialect) -> str:
    return statement if dialect.executed else f"{NOT_EXECUTED}\n{statement}"


def _file(statements: Iterable[str]) -> str:
    """Return the text of a file: statements that end with a semicolon, separated by an empty line."""
    return "\n".join(f"{statement};\n" for statement in statements) or "-- no statements\n"
