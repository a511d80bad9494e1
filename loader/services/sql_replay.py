"""Replay of history cases through rendered SQL, on DuckDB or PostgreSQL.

Each case has a raw table, rawcore and a history of its own. Its rows are typed as the contract of plain SQL asks of a
caller, inserted into raw, and loaded by the rendered statements in one transaction, like any caller would.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Protocol
from uuid import uuid4

import psycopg

from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.tables import DELETED, OPEN, ObservedColumn, ObservedTable, TableSpec
from loader.contract.refusals import Refusal
from loader.dialects import guards, runs
from loader.dialects.case_tables import SCHEMA, CaseTables
from loader.dialects.catalog import DIALECTS
from loader.dialects.dialect import Dialect
from loader.dialects.loads import refuse_unsupported, render_load
from loader.dialects.refusals import NOT_RENDERED, NotRendered
from loader.dialects.table_changes import statements_of
from loader.dialects.types_and_names import LOAD_RUN_ID, LOAD_TIMESTAMP, timestamp_text
from loader.domain.extras import packages_of
from loader.domain.historization.compared_texts import BY_VALUE
from loader.domain.historization.history import parse_instant
from loader.domain.reference.batch import typed_columns
from loader.domain.reference.cases import Case, Outcome, run_case
from loader.domain.reference.table import Header
from loader.services.postgres_server import temporary_postgres
from metadata.domain.types import TIMESTAMP, parse

DUCKDB, POSTGRES = "duckdb", "postgres"
log = logging.getLogger(__name__)

_CODE = re.compile(rf"\b({'|'.join(guards.CODES)}): ([^\n]*)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Connection(Protocol):
    """Connection to an engine, with transactions."""

    def run(self, sql: str) -> None: ...

    def rows(self, sql: str) -> list[tuple]: ...

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None: ...


class DuckDbConnection:
    """In-memory DuckDB. Its time zone is not UTC, because no statement may depend on the session's zone."""

    def __init__(self) -> None:
        import duckdb

        self._own = duckdb.connect()
        self._own.execute("SET TimeZone = 'Asia/Tokyo'")
        # Over the few rows of a case, starting threads takes as long as the statements.
        self._own.execute("SET threads = 1")

    def run(self, sql: str) -> None:
        self._own.execute(sql)

    def rows(self, sql: str) -> list[tuple]:
        return self._own.execute(sql).fetchall()

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        marks = ", ".join("?" for _ in columns)
        if rows:  # DuckDB refuses an empty list
            self._own.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)


class PostgresConnection:
    """Connection to a PostgreSQL database, by URL, with other settings of times than those of rendered texts."""

    def __init__(self, url: str) -> None:
        self._own = psycopg.connect(url, autocommit=True)
        self._own.execute("SET TIME ZONE 'America/New_York'")
        self._own.execute("SET DateStyle = 'German'")

    def close(self) -> None:
        self._own.close()

    def run(self, sql: str) -> None:
        self._own.execute(sql.encode())

    def rows(self, sql: str) -> list[tuple]:
        return self._own.execute(sql.encode()).fetchall()

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        marks = ", ".join("%s" for _ in columns)
        statement = f"INSERT INTO {table} ({', '.join(columns).replace('%', '%%')}) VALUES ({marks})"
        with self._own.cursor() as cursor:
            cursor.executemany(statement.encode(), rows)


@contextmanager
def connected(engine: str, url: str | None) -> Iterator[Connection]:
    """Yield a connection; PostgreSQL is a server of its own without a URL. Raise Refusal if it cannot be had."""
    if engine == DUCKDB:
        with packages_of("duckdb"):
            connection = DuckDbConnection()
        yield connection
        return
    with nullcontext(url) if url else temporary_postgres() as place:
        try:
            opened = PostgresConnection(place)
        except psycopg.Error as problem:
            hint = "Check the URL and that the server is running."
            raise Refusal("NO_POSTGRES", f"PostgreSQL cannot be reached: {problem}", hint=hint) from problem
        yield opened
        opened.close()


def replay_sql(
    cases: Iterable[Case], engine: str, connection: Connection, tell: Callable[[Outcome], None] = lambda _: None
) -> list[Outcome]:
    """Run the cases on an engine; a case that is not rendered has ``passed`` None and the code in its message."""
    outcomes = []
    for case in cases:
        opened: list[SqlEngine] = []
        try:
            outcome = run_case(case, partial(_engine, opened, engine, connection))
        except NotRendered as problem:
            outcome = Outcome(case.id, None, f"{NOT_RENDERED}: {problem.one_line()}", ())
        except Exception as failure:  # an error of the engine in one case must not end the others
            log.exception("case %s failed", case.id)
            outcome = Outcome(case.id, False, f"{type(failure).__name__}: {failure}", ())
        for used in opened:
            used.drop()
        outcomes.append(outcome)
        tell(outcome)
    return outcomes


def _engine(opened: list["SqlEngine"], engine: str, connection: Connection, header: Header) -> "SqlEngine":
    opened.append(SqlEngine(DIALECTS[engine], connection, header))
    return opened[-1]


class SqlEngine:
    """History of one case in a database, with the same methods ``apply`` and ``rows`` as the reference engine."""

    def __init__(self, dialect: Dialect, connection: Connection, header: Header) -> None:
        self.dialect, self.connection = dialect, connection
        key = str(uuid4())
        self.tables = CaseTables(header, key, f"case_{key.replace('-', '')}")
        self._prepared = False

    def apply(self, batch: Mapping[str, Any]) -> None:
        """Apply a batch completely, or raise Refusal and change nothing."""
        if not self._prepared:
            self._prepare()
        before = self.tables
        rerun = self._is_applied(batch["run_id"])
        self.connection.run("BEGIN")
        try:
            if not rerun:
                self.tables = before.evolved(batch)
                refuse_unsupported(self.tables.load)
                self._change_tables(before, self.tables)
            self._load(batch)
        except BaseException as problem:
            self.connection.run("ROLLBACK")
            self.tables = before
            code = _CODE.search(str(problem))
            if code is None or isinstance(problem, Refusal):
                raise
            raise Refusal(code[1], code[2]) from problem
        self.connection.run("COMMIT")

    def drop(self) -> None:
        """Drop the tables of the case."""
        if self.tables.columns.types:
            for spec in (self.tables.raw, *self.tables.tables):
                self.connection.run(f"DROP TABLE IF EXISTS {self.dialect.table(spec.qualified_name)}")

    def _prepare(self) -> None:
        for schema in ("raw", SCHEMA, runs.TABLE.partition(".")[0]):
            self.connection.run(self.dialect.create_schema(schema))
        creation = self.dialect.create_table(runs.TABLE, runs.COLUMNS)
        self.connection.run(creation.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1))
        self._prepared = True

    def _is_applied(self, run_id: str) -> bool:
        if not self.tables.columns.types:
            return False
        key, text = self.tables.tables[1].key, self.dialect.text
        query = f"SELECT 1 FROM {self.dialect.table(runs.TABLE)}"
        return bool(self.connection.rows(f"{query} WHERE table_key = {text(key)} AND load_run_id = {text(run_id)}"))

    def _change_tables(self, before: CaseTables, after: CaseTables) -> None:
        _refuse_other_keys(before, after)
        observed = {spec.key: _observed(spec) for spec in before.tables} if before.columns.types else {}
        for step in plan_steps(after.tables, observed):
            for statement in statements_of(step, self.dialect):
                self.connection.run(statement)

    def _load(self, batch: Mapping[str, Any]) -> None:
        tables, dialect = self.tables, self.dialect
        self._deliver(batch)
        rendered = render_load(
            dialect,
            tables.load,
            allow_empty=bool(batch.get("allow_empty")),
            allow_deletes=bool(batch.get("allow_deletes")),
        )
        at = timestamp_text(batch["at"])
        for statement in rendered.statements:
            text = statement.replace(LOAD_TIMESTAMP, at).replace(LOAD_RUN_ID, batch["run_id"].replace("'", "''"))
            self.connection.run(text)

    def _deliver(self, batch: Mapping[str, Any]) -> None:
        """Write the rows of a batch into raw, typed by the rules of the product (rule 5)."""
        tables, raw, dialect = self.tables, self.tables.raw, self.dialect
        table = dialect.table(raw.qualified_name)
        self.connection.run(f"DROP TABLE IF EXISTS {table}")
        self.connection.run(dialect.create_table(raw.qualified_name, [(c.name, c.type) for c in raw.columns]))
        names = tables.delivered
        typed = typed_columns(list(batch["rows"]), names, tables.columns)
        at = parse_instant(batch["at"])
        rows = [[*(self._plain(row[name]) for name in names), batch["run_id"], at] for row in typed]
        self.connection.insert(table, [dialect.identifier(column.name) for column in raw.columns], rows)

    def _plain(self, value: Any) -> Any:
        """Return a value as the connection takes it. Raise NotRendered for a text that the database does not hold."""
        if not isinstance(value, str):
            return value
        self.dialect.check_value(value)
        return str(value)

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per version, values typed as in cases; open ends are None."""
        if not self.tables.columns.types:
            return []
        spec = self.tables.tables[1]
        purposes = {"valid_from": "started_at", "valid_to": "ended_at", "state": "state", "opened_by": "run_id",
                    "closed_by": "closed_by", "segment": "segment"}  # fmt: skip
        own = {shown: spec.column(purpose).name for shown, purpose in purposes.items()}
        versions = []
        for values in self._read(spec):
            version = {shown: values[name] for shown, name in own.items()}
            segment = version.pop("segment")
            is_open = segment == OPEN or (segment == DELETED and version["closed_by"] is None)
            version["valid_to"] = None if is_open else version["valid_to"]
            when = {name: version.pop(name) for name in ("valid_from", "valid_to")}
            data = {name: values[called] for name, called in self.tables.physical.items()}
            versions.append(version | data | when)
        return versions

    def current(self) -> list[dict[str, Any]]:
        """Return the rows of rawcore by the names of the case."""
        if not self.tables.columns.types:
            return []
        rows = self._read(self.tables.tables[0])
        return [{name: row[called] for name, called in self.tables.physical.items()} for row in rows]

    def _read(self, spec: TableSpec) -> list[dict[str, Any]]:
        """Return the rows of a table; timestamps are read as microseconds, whatever the session's time zone."""
        types = {column.name: parse(column.type) for column in spec.columns}
        selected = [
            self.dialect.microseconds(self.dialect.identifier(name))
            if type_.name == TIMESTAMP
            else self.dialect.identifier(name)
            for name, type_ in types.items()
        ]
        query = f"SELECT {', '.join(selected)} FROM {self.dialect.table(spec.qualified_name)}"
        return [
            {
                name: _EPOCH + timedelta(microseconds=value) if type_.name == TIMESTAMP and value is not None else value
                for (name, type_), value in zip(types.items(), row, strict=True)
            }
            for row in self.connection.rows(query)
        ]


def _refuse_other_keys(before: CaseTables, after: CaseTables) -> None:
    """Raise NotRendered for a key whose values have other hashes by its new type.

    A load of the product gives the rows of such a key their stored keys.
    """
    types = {key: before.columns.types[name] for name, key in before.keys.items() if name in before.columns.types}
    for name in after.header.keys:
        stored, wanted = types.get(after.keys[name]), after.columns.types[name]
        if stored is not None and stored.name != wanted.name and BY_VALUE & {stored.name, wanted.name}:
            raise NotRendered(f"keys of {stored} are not found by {wanted}", where=name)


def _observed(spec: TableSpec) -> ObservedTable:
    columns = tuple(ObservedColumn(column.name, column.type, key=column.key) for column in spec.columns)
    return ObservedTable(spec.key, spec.qualified_name, columns, 0, tuple(spec.partition_by))
