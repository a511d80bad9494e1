"""Copies in PostgreSQL: written by Spark's JDBC writer beside the target, made visible by one transaction."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from loader.contract.manifest.copies import CopyTarget
from loader.contract.manifest.sources import DatabaseSpec
from loader.contract.refusals import Refusal
from loader.domain import copies as rules
from loader.domain.copies import Content, Registered, qualified
from loader.domain.database_kinds import engine_of
from loader.domain.sources.databases import CONNECT_SECONDS
from loader.domain.sources.hosts import check_host
from loader.engine.copies.copied_rows import CopiedRows
from loader.engine.copies.postgres_objects import KeptObjects, revoke_defaults
from loader.engine.copies.postgres_values import refusal_of_values, written_value
from loader.engine.copies.results import COPIED, UNCHANGED, CopyResult
from loader.engine.java_errors import JAVA_ERRORS
from loader.engine.session import source_hosts
from loader.engine.sources.database_connections import close_quietly, open_connection
from loader.engine.sources.databases import database_error
from loader.engine.tables.table_files import misses_version
from metadata.domain.copies import CHANGES, REGISTER, REPLACE
from metadata.domain.sql import quote_standard_identifier

log = logging.getLogger(__name__)

Phase = Callable[[str], None]
# Options of writes: large batches, and texts that PostgreSQL reads as values of the columns' types.
_WRITER = {"batchsize": "10000", "reWriteBatchedInserts": "true", "stringtype": "unspecified"}
# Tasks that write at once, each with a connection.
_WRITERS = 4
_LOCK_SECONDS = 300
# Texts of rows, of which checksums are made, do not depend on the settings of a user or server.
_SESSION = (
    "SET TIME ZONE 'UTC'; SET DateStyle = 'ISO, MDY'; SET IntervalStyle = 'postgres'; SET extra_float_digits = 1; "
    f"SET bytea_output = 'hex'; SET lock_timeout = '{_LOCK_SECONDS}s'; SET statement_timeout = 0; "
    "SET idle_in_transaction_session_timeout = 0; SET standard_conforming_strings = on; "
    # A query that row security would leave rows out of fails.
    "SET row_security = off"
)
# Kinds of tables in PostgreSQL's catalog.
_TABLES = ("r", "p")
_CHANGES = "_changes"
# Classes of SQLSTATE: values, and errors that pass (connection, conflict, resources, locks, operator, system).
_DATA = ("22",)
_PASSING = ("08", "40", "53", "55", "57", "58")


@dataclass
class Connection:
    """Connection of the runner to PostgreSQL."""

    session: SparkSession
    java: Any
    url: str
    settings: dict[str, str] = field(repr=False)

    def execute(self, statement: str) -> None:
        java_statement = self.java.createStatement()
        try:
            java_statement.execute(statement)
        finally:
            java_statement.close()

    def rows(self, query: str, *texts: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query, each value as text; ``texts`` are its parameters."""
        prepared = self.java.prepareStatement(query)
        try:
            for place, text in enumerate(texts, start=1):
                prepared.setString(place, text)
            result = prepared.executeQuery()
            rows: list[tuple[Any, ...]] = []
            width = result.getMetaData().getColumnCount()
            while result.next():
                rows.append(tuple(result.getString(place) for place in range(1, width + 1)))
            return rows
        finally:
            prepared.close()

    def text(self, query: str, *texts: str) -> str | None:
        """Return the first value; None for NULL or without a row."""
        rows = self.rows(query, *texts)
        return rows[0][0] if rows else None

    def run(self, statement: str, *texts: str) -> None:
        prepared = self.java.prepareStatement(statement)
        try:
            for place, text in enumerate(texts, start=1):
                prepared.setString(place, text)
            prepared.execute()
        finally:
            prepared.close()

    def tried(self, statement: str) -> bool:
        """Execute a statement in a savepoint; return False if it does not fit, with nothing changed.

        Errors that pass are raised: a full disk or a shutdown is no reason to leave an index out.
        """
        savepoint = self.java.setSavepoint()
        try:
            self.execute(statement)
        except JAVA_ERRORS as failure:
            error = database_error(self.session, failure)
            if error is None or error.among(_PASSING):
                raise
            self.java.rollback(savepoint)
            return False
        self.java.releaseSavepoint(savepoint)
        return True


@dataclass
class PostgresCopy:
    """Copy of a table in a database of PostgreSQL."""

    session: SparkSession
    connection: Connection
    target: CopyTarget
    rows: CopiedRows
    phase: Phase

    def __post_init__(self) -> None:
        self.place = str(_database(self.target).place)
        schema = self.connection.text("SELECT current_schema()") or "public"
        self.register_table = f"{schema}.{REGISTER}"
        self.register = qualified(self.register_table)
        self.beside = rules.beside(self.target)
        self.columns = self.rows.columns(self.target)
        self.warnings: list[str] = []

    # --- facts of the target ----------------------------------------------------------------------

    def registered(self, table: str) -> Registered | None:
        kind = self.kind_of(self.register_table)
        if not kind:
            return None
        if kind not in _TABLES:
            # Its triggers would run with the rights of the user of copies, and its rows could name any table.
            raise Refusal(
                rules.FOREIGN,
                f"{self.register_table} in {self.place} is no table of the user of copies",
                hint="Remove it, or make that user its owner.",
            )
        fields = "environment, dataset, version, run_id, row_count, checksum"
        rows = self.connection.rows(f"SELECT {fields} FROM {self.register} WHERE table_name = ?", table)
        if not rows:
            return None
        environment, dataset, version, run_id, row_count, checksum = rows[0]
        return Registered(environment, dataset, int(version), run_id, int(row_count), checksum)

    def kind_of(self, table: str) -> str:
        """Return the kind of a relation in PostgreSQL's catalog; ``-`` for one of another owner, empty without one."""
        query = (
            "SELECT CASE WHEN pg_catalog.pg_has_role(c.relowner, 'MEMBER') THEN c.relkind::text ELSE '-' END "
            "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = ? AND c.relname = ?"
        )
        return self.connection.text(query, *_parts(table)) or ""

    def owned(self, table: str) -> Registered | None:
        """Return the row of a table in ``elevata_copies``.

        Raise Refusal COPY_FOREIGN for a table of others, COPY_BLOCKED for one whose rows may be hidden.
        """
        row, kind = self.registered(table), self.kind_of(table)
        rules.check_owner(self.target, table, self.place, exists=bool(kind), row=row)
        if kind not in ("", *_TABLES):
            rules.check_owner(self.target, table, self.place, exists=True, row=None)
        if kind and self._is_filtered(table):
            raise Refusal(
                "COPY_BLOCKED",
                f"row security of {table} applies to the user of copies in {self.place}, who may not see all rows",
                hint="Give that user BYPASSRLS, or drop FORCE ROW LEVEL SECURITY from the table.",
            )
        return row

    def _is_filtered(self, table: str) -> bool:
        query = "SELECT pg_catalog.row_security_active(?::regclass)::text"
        return self.connection.text(query, qualified(table)) == "true"

    def shape(self, table: str) -> list[tuple[str, ...]]:
        """Return names and types of a table's columns, as PostgreSQL writes them."""
        query = (
            "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod) FROM pg_catalog.pg_attribute a "
            "JOIN pg_catalog.pg_class c ON c.oid = a.attrelid "
            "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = ? AND c.relname = ? AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
        )
        return self.connection.rows(query, *_parts(table))

    def content(self, table: str) -> Content:
        ((count, checksum),) = self.connection.rows(rules.content_query(qualified(table)))
        return Content(int(count), checksum)

    # --- work -------------------------------------------------------------------------------------

    def check(self) -> Refusal | None:
        """Return the finding of a comparison; nothing is written."""
        row = self.owned(self.target.table)
        content = self.content(self.target.table) if self.kind_of(self.target.table) else None
        same = [name for name, _ in self.shape(self.target.table)] == [column.name for column in self.columns]
        return rules.finding(self.target, self.place, row, content, self.rows.version, same_shape=same)

    def make(self, *, verify: bool, run_id: str) -> CopyResult:
        """Bring the target to the table's version; return what was done."""
        row, same = self._prepare()
        table = self.target.table
        if row is not None and verify and same:
            same = self.content(table) == Content(row.row_count, row.checksum)
        if rules.is_current(self.target, row, self.rows.version, same_shape=same) and row is not None:
            self._commit(f"DROP TABLE IF EXISTS {qualified(self.beside)}")
            return CopyResult.of(UNCHANGED, self.rows.version, Content(row.row_count, row.checksum))
        result: CopyResult | None = None
        if self.target.mode == CHANGES:
            if rules.may_apply_changes(self.target, row, self.rows.version, same_shape=same) and row is not None:
                result = self._by_changes(row, run_id)
            else:
                self.warnings.append("the whole table was copied: the changes since the last copy are not known")
        result = result or self._by_replacing(run_id)
        result.warnings = self.warnings
        return result

    def _prepare(self) -> tuple[Registered | None, bool]:
        """Create schema, ``elevata_copies`` and the new table; return the target's row, and if its shape is theirs."""
        schema = _parts(self.target.table)[0]
        if self.connection.text("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = ?", schema) is None:
            self.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quote_standard_identifier(schema)}")
        if not self.kind_of(self.register_table):
            self.connection.execute(rules.create_register(self.register))
        row = self.owned(self.target.table)
        for suffix in ("", _CHANGES):
            self.connection.execute(f"DROP TABLE IF EXISTS {qualified(self.beside + suffix)}")
        self.connection.execute(rules.create_table(qualified(self.beside), self.columns))
        if any(name and self.kind_of(name) for name in (self.target.table, self.target.former_table)):
            # The new table gets the privileges of the former one.
            revoke_defaults(self.connection, self.beside)
        same = self.shape(self.target.table) == self.shape(self.beside)
        self.connection.java.commit()
        return row, same

    def _by_replacing(self, run_id: str) -> CopyResult:
        self.phase(f"writing to {self.target.system}")
        self._write(self.rows.frame(self.target), self.beside)
        content = self.content(self.beside)
        if content.row_count != self.rows.row_count:
            raise Refusal(
                rules.DIFFERS,
                f"{self.beside} in {self.place} has {content.row_count} rows after writing {self.rows.row_count}",
                hint="The target was left as it was. Run again.",
            )
        self._commit(f"ANALYZE {qualified(self.beside)}")
        self.phase(f"swapping the table in {self.target.system}")
        with self._transaction():
            self._swap()
            self._record(content, run_id)
        return CopyResult.of(COPIED, self.rows.version, content, REPLACE)

    def _swap(self) -> None:
        table, name = self.target.table, quote_standard_identifier(_parts(self.target.table)[1])
        self._follow_rename()
        self.owned(table)
        kept = None
        if self.kind_of(table):
            self.connection.execute(f"LOCK TABLE {qualified(table)} IN ACCESS EXCLUSIVE MODE")
            kept = KeptObjects.of(self.connection, table)
            kept.drop_views(self.connection, self.place)
            self.connection.execute(f"DROP TABLE {qualified(table)}")
        self.connection.execute(f"ALTER TABLE {qualified(self.beside)} RENAME TO {name}")
        if kept is not None:
            self.warnings += kept.restore(self.connection, table, self.place)

    def _follow_rename(self) -> None:
        """Give the table that has the copy's former name the present one; its views follow."""
        former, table = self.target.former_table, self.target.table
        row = self.registered(former) if former not in ("", table) else None
        if row is None or row.environment != self.target.environment or row.dataset not in self.target.owners:
            return
        if not self.kind_of(former):
            self.connection.run(f"DELETE FROM {self.register} WHERE table_name = ?", former)
            return
        if self.kind_of(table):
            self.connection.execute(f"DROP TABLE {qualified(former)}")
            self.connection.run(f"DELETE FROM {self.register} WHERE table_name = ?", former)
            return
        for statement in rules.rename_table(former, self.target):
            self.connection.execute(statement)
        self.connection.run(f"UPDATE {self.register} SET table_name = ? WHERE table_name = ?", table, former)

    def _by_changes(self, row: Registered, run_id: str) -> CopyResult | None:
        """Apply the changed keys; return None with a warning if they are not known, or do not give the table's rows."""
        self.phase(f"writing changes to {self.target.system}")
        changes = self.beside + _CHANGES
        self.connection.execute(rules.create_table(qualified(changes), [*self.columns, rules.GONE]))
        revoke_defaults(self.connection, changes)
        self.connection.java.commit()
        try:
            self._write(self.rows.changes(self.target, row.version), changes, tasks=1)
        except JAVA_ERRORS as failure:
            if not misses_version(failure):
                raise
            log.info("the changes of %s cannot be read", self.rows.name, exc_info=True)
            reason = f"the changes since version {row.version} cannot be read, as after a vacuum"
        else:
            result = self._apply_changes(row, changes, run_id)
            if result is not None:
                return result
            reason = "changed keys alone would not give the table's rows"
        self._commit(f"DROP TABLE IF EXISTS {qualified(changes)}")
        self.warnings.append(f"the whole table was copied: {reason}")
        return None

    def _apply_changes(self, row: Registered, changes: str, run_id: str) -> CopyResult | None:
        """Delete and insert rows in one transaction; return None, with nothing changed, if rows would be missing."""
        table, source = qualified(self.target.table), qualified(changes)
        with self._transaction():
            self.connection.execute(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE")
            if self.owned(self.target.table) != row:
                message = f"{self.target.table} was copied by another run meanwhile"
                raise Refusal(rules.DIFFERS, message, hint="Run again.")
            names = [column.name for column in self.columns]
            statements = rules.apply_changes(table, source, names, self.target.keys)
            ((lost, lost_sum),), ((new, new_sum),) = (self.connection.rows(each) for each in statements)
            total = int(row.checksum) - int(lost_sum) + int(new_sum)
            content = Content(row.row_count - int(lost) + int(new), str(total))
            if content.row_count != self.rows.row_count:
                self.connection.java.rollback()
                return None
            result = CopyResult.of(COPIED, self.rows.version, content, CHANGES)
            result.changed = int(self.connection.text(rules.count_changed(source)) or 0)
            for name in (changes, self.beside):
                self.connection.execute(f"DROP TABLE IF EXISTS {qualified(name)}")
            self._record(content, run_id)
        return result

    def _record(self, content: Content, run_id: str) -> None:
        target = self.target
        self.connection.run(f"DELETE FROM {self.register} WHERE table_name = ?", target.table)
        self.connection.run(
            f"INSERT INTO {self.register} (table_name, environment, dataset, version, run_id, row_count, checksum, "
            "copied_at) VALUES (?, ?, ?, ?::bigint, ?, ?::bigint, ?, now())",
            *(target.table, target.environment, self.rows.name, str(self.rows.version), run_id),
            *(str(content.row_count), content.checksum),
        )

    def _write(self, frame: DataFrame, table: str, tasks: int = _WRITERS) -> None:
        schema = qualified(table)
        settings = self.connection.settings | _WRITER
        frame = frame.select(*(written_value(column) for column in frame.schema.fields))
        frame.coalesce(tasks).write.mode("append").jdbc(self.connection.url, schema, properties=settings)

    def _commit(self, statement: str) -> None:
        self.connection.execute(statement)
        self.connection.java.commit()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            yield
            self.connection.java.commit()
        except BaseException:
            close_quietly(self.connection.java.rollback)
            raise


@contextmanager
def opened(session: SparkSession, target: CopyTarget, rows: CopiedRows, phase: Phase) -> Iterator[PostgresCopy]:
    """Yield a copy with an open connection. Raise Refusal with the reason if the database refuses something."""
    database = _database(target)
    place, engine = database.place, engine_of(database.place)
    check_host(place.host, place.port, source_hosts(session))
    if database.secret and not database.password:
        raise Refusal(
            "SECRET_NOT_SET",
            f"{target.system}: neither {database.secret} nor {database.secret}_FILE is set where the worker runs",
            hint="Set it for the worker and start that again, or correct the variable's name in the system.",
        )
    settings = {
        "driver": engine.driver,
        "ApplicationName": "elevata",
        "connectTimeout": str(CONNECT_SECONDS),
        "loginTimeout": str(CONNECT_SECONDS),
        "tcpKeepAlive": "true",
        **({"user": place.user} if place.user else {}),
        **({"password": database.password} if database.password else {}),
    }
    java = None
    try:
        java = open_connection(session, engine.url(place), settings)
        java.setAutoCommit(False)
        connection = Connection(session, java, engine.url(place), settings)
        connection.execute(_SESSION)
        java.commit()
        yield PostgresCopy(session, connection, target, rows, phase)
    except JAVA_ERRORS as failure:
        error = database_error(session, failure)
        if error is None:
            raise
        if error.among(_DATA) and (refusal := refusal_of_values(rows.frame(target), target)) is not None:
            raise refusal from None
        first = next(iter(error.message.strip().splitlines()), "no message")[:300]
        state = f" (SQLSTATE {error.state})" if error.state else ""
        raise Refusal(
            "COPY_FAILED",
            f"{target.table} in {place} was not copied: {first}{state}",
            hint="The target was left as it was, and the copy is made again by itself.",
        ) from None
    finally:
        if java is not None:
            close_quietly(java.close)


def _database(target: CopyTarget) -> DatabaseSpec:
    assert target.database is not None, f"{target.system} is no database"
    return target.database


def _parts(table: str) -> Sequence[str]:
    schema, _, name = table.partition(".")
    return schema, name
