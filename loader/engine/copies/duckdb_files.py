"""Copies in a DuckDB file: a new file is written beside and renamed, with all other tables of the former one."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from pyspark.sql import SparkSession

from loader.contract.manifest.copies import CopyTarget
from loader.contract.refusals import Refusal
from loader.domain import copies as rules
from loader.domain.copies import Content, Registered, qualified
from loader.domain.extras import packages_of
from loader.engine.copies.copied_rows import CopiedRows
from loader.engine.copies.postgres import Phase
from loader.engine.copies.results import COPIED, UNCHANGED, CopyResult
from metadata.domain.copies import BESIDE, CHANGES, REGISTER, REPLACE
from metadata.domain.sources.locations import DELTA_LOG
from metadata.domain.sql import quote_standard_identifier, quote_standard_text

_OLD = "former_copy"
# DuckDB finds names without regard to the case of ASCII letters; lower() would change others, too.
_FOLDED = f"translate({{}}, '{ascii_uppercase}', '{ascii_lowercase}')"
_SAME_TABLE_NAME = f"{_FOLDED.format('table_name')} = {_FOLDED.format('?')}"
_SAME_SCHEMA = f"{_FOLDED.format('table_schema')} = {_FOLDED.format('?')}"
_SAME_TABLE = f"table_catalog = current_database() AND {_SAME_SCHEMA} AND {_SAME_TABLE_NAME}"
_REGISTERED = (
    f"SELECT environment, dataset, version, run_id, row_count, checksum FROM {REGISTER} WHERE {_SAME_TABLE_NAME}"
)
_CHECKSUM = "SELECT count(*), coalesce(sum(md5_number_lower(CAST(t AS VARCHAR))), 0) FROM {} t"


@dataclass
class DuckDbCopy:
    """Copy of a table in a DuckDB file."""

    session: SparkSession
    target: CopyTarget
    rows: CopiedRows
    phase: Phase
    warnings: list[str] = field(default_factory=list)

    @property
    def file(self) -> Path:
        return Path(self.target.location)

    def check(self) -> Refusal | None:
        """Return the finding of a comparison; nothing is written."""
        self._refuse_inside_of_table()
        columns = [column.name for column in self.rows.columns(self.target)]
        if not self.file.exists():
            return rules.finding(self.target, str(self.file), None, None, self.rows.version, same_shape=False)
        with self._reading() as former:
            row = self._owned(former)
            present = [name for name, _ in _shape(former, self.target.table)]
            content = _content(former, self.target.table) if present else None
            return rules.finding(
                self.target, str(self.file), row, content, self.rows.version, same_shape=present == columns
            )

    def make(self, *, verify: bool, run_id: str) -> CopyResult:
        """Bring the target to the table's version; return what was done."""
        self._refuse_inside_of_table()
        target, version = self.target, self.rows.version
        if self.target.mode == CHANGES:
            self.warnings.append("the whole table was copied: files of DuckDB are always replaced")
        row = None
        if self.file.exists():
            with self._reading() as former:
                row = self._owned(former)
                same = bool(_shape(former, target.table))
                if row is not None and same and verify:
                    same = _content(former, target.table) == Content(row.row_count, row.checksum)
        if row is not None and rules.is_current(target, row, version, same_shape=same):
            return CopyResult.of(UNCHANGED, version, Content(row.row_count, row.checksum))
        self.file.parent.mkdir(parents=True, exist_ok=True)
        beside = self.file.with_name(f".{BESIDE}{target.key}.duckdb")
        parquet = self.file.with_name(f".{BESIDE}{target.key}.parquet")
        _remove(beside, parquet)
        try:
            self.phase(f"writing to {target.system}")
            self.rows.frame(target).coalesce(4).write.parquet(f"file:{parquet}")
            content = self._write(beside, parquet, run_id)
            self.phase(f"swapping the file of {target.system}")
            os.replace(beside, self.file)
        finally:
            _remove(beside, parquet)
        result = CopyResult.of(COPIED, version, content, REPLACE)
        result.warnings = self.warnings
        return result

    def _write(self, beside: Path, parquet: Path, run_id: str) -> Content:
        """Write the new file: all tables of the former one, with the rows of the copy. Return its content."""
        target, columns = self.target, self.rows.columns(self.target)
        schema, register = target.table.partition(".")[0], quote_standard_identifier(REGISTER)
        with _connected(beside) as new:
            _restrict(new, read=[self.file, Path(f"{self.file}.wal")], folders=[parquet])
            if self.file.exists():
                new.execute(f"ATTACH {quote_standard_text(str(self.file))} AS {_OLD} (READ_ONLY)")
                (own,) = new.execute("SELECT current_database()").fetchone()
                new.execute(f"COPY FROM DATABASE {_OLD} TO {quote_standard_identifier(own)}")
                new.execute(f"DETACH {_OLD}")
            new.execute("BEGIN")
            new.execute(f"CREATE SCHEMA IF NOT EXISTS {quote_standard_identifier(schema)}")
            new.execute(rules.create_register(register))
            for table in {self._former_table(new), target.table}:
                new.execute(f"DROP TABLE IF EXISTS {qualified(table)}")
                new.execute(f"DELETE FROM {register} WHERE {_SAME_TABLE_NAME}", [table])
            new.execute(rules.create_table(qualified(target.table), columns))
            names = rules.names(column.name for column in columns)
            new.execute(
                f"INSERT INTO {qualified(target.table)} ({names}) SELECT {names} "
                f"FROM read_parquet({quote_standard_text(str(parquet / '*.parquet'))})"
            )
            content = _content(new, target.table)
            if content.row_count != self.rows.row_count:
                message = f"{target.table} in {self.file} has {content.row_count} rows after writing"
                hint = "The file was left as it was. Run again."
                raise Refusal(rules.DIFFERS, f"{message} {self.rows.row_count}", hint=hint)
            new.execute(
                f"INSERT INTO {register} VALUES (?, ?, ?, ?, ?, ?, ?, now())",
                [target.table, target.environment, self.rows.name, self.rows.version, run_id]
                + [content.row_count, content.checksum],
            )
            new.execute("COMMIT")
            return content

    def _former_table(self, connection: Any) -> str:
        """Return the table of the copy's former name if the copy made it, else the present one."""
        former = self.target.former_table or self.target.table
        fields = connection.execute(_REGISTERED, [former]).fetchone()
        row = Registered(*fields) if fields is not None else None
        is_own = row is not None and row.environment == self.target.environment and row.dataset in self.target.owners
        return former if is_own and _kind(connection, former) in ("", "BASE TABLE") else self.target.table

    def _refuse_inside_of_table(self) -> None:
        folders = map(str, self.file.parents)
        rules.check_outside_of_tables(self.target, folders, lambda folder: os.path.exists(f"{folder}/{DELTA_LOG}"))

    def _owned(self, connection: Any) -> Registered | None:
        """Return the table's row in ``elevata_copies``. Raise Refusal COPY_FOREIGN for a file or table of others."""
        known = connection.execute(
            "SELECT 1 FROM information_schema.tables "
            "WHERE table_schema = 'main' AND table_name = ? AND table_type = 'BASE TABLE'",
            [REGISTER],
        ).fetchone()
        if known is None:
            raise Refusal(
                rules.FOREIGN,
                f"{self.file} is a database that elevata did not make; it is not touched",
                hint="Give the system another file, or remove that one by hand.",
            )
        fields = connection.execute(_REGISTERED, [self.target.table]).fetchone()
        row = Registered(*fields) if fields is not None else None
        kind = _kind(connection, self.target.table)
        row_of_table = row if kind in ("", "BASE TABLE") else None
        rules.check_owner(self.target, self.target.table, str(self.file), exists=bool(kind), row=row_of_table)
        return row

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """Yield a connection to the file. Raise Refusal COPY_BUSY or COPY_FOREIGN if it cannot be read."""
        with packages_of("duckdb"):
            import duckdb
        if Path(f"{self.file}.wal").exists():
            raise _busy(self.file, "another program has it open, or ended without closing it")
        try:
            connection = duckdb.connect(str(self.file), read_only=True)
        except duckdb.IOException as error:
            message = str(error).splitlines()[0][:300]
            if "lock" in message.lower():
                raise _busy(self.file, "another program has it open for writing") from None
            raise Refusal(
                rules.FOREIGN, f"{self.file} is no database of DuckDB: {message}", hint="Give the system another file."
            ) from None
        try:
            connection.execute("SET TimeZone = 'UTC'")
            _restrict(connection)
            yield connection
        finally:
            connection.close()


@contextmanager
def _connected(file: Path) -> Iterator[Any]:
    with packages_of("duckdb"):
        import duckdb
    connection = duckdb.connect(str(file))
    try:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection
    finally:
        connection.close()


def _restrict(connection: Any, *, read: Sequence[Path] = (), folders: Sequence[Path] = ()) -> None:
    """Let a connection read these files and folders only: a view of another program in the file may read any."""
    for name, places in (("allowed_paths", map(str, read)), ("allowed_directories", (f"{each}/" for each in folders))):
        connection.execute(f"SET {name} = [{', '.join(map(quote_standard_text, places))}]")
    connection.execute("SET enable_external_access = false")


def _kind(connection: Any, table: str) -> str:
    """Return the type of a table or view; empty without one of this name."""
    schema, _, name = table.partition(".")
    query = f"SELECT table_type FROM information_schema.tables WHERE {_SAME_TABLE}"
    row = connection.execute(query, [schema, name]).fetchone()
    return row[0] if row is not None else ""


def _shape(connection: Any, table: str) -> list[tuple[str, str]]:
    schema, _, name = table.partition(".")
    columns = f"SELECT column_name, data_type FROM information_schema.columns WHERE {_SAME_TABLE}"
    return connection.execute(f"{columns} ORDER BY ordinal_position", [schema, name]).fetchall()


def _content(connection: Any, table: str) -> Content:
    count, checksum = connection.execute(_CHECKSUM.format(qualified(table))).fetchone()
    return Content(count, str(checksum))


def _busy(file: Path, why: str) -> Refusal:
    return Refusal("COPY_BUSY", f"{file} cannot be replaced: {why}", hint="Close it there, or open it read-only.")


def _remove(*places: Path) -> None:
    for place in places:
        if place.is_dir():
            shutil.rmtree(place)
            continue
        for file in (place, Path(f"{place}.wal")):
            with suppress(FileNotFoundError):
                file.unlink()
