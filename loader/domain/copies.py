"""Rules of copies: facts of a target, findings, and statements of PostgreSQL and DuckDB."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from loader.contract.manifest.copies import CopyColumn, CopyTarget
from loader.contract.refusals import Refusal
from metadata.domain.copies import BESIDE, INCLUDE
from metadata.domain.sql import quote_standard_identifier

FOREIGN, BEHIND, DIFFERS, SENSITIVE = "COPY_FOREIGN", "COPY_BEHIND", "COPY_DIFFERS", "COPY_SENSITIVE"
REGISTER_COLUMNS = (
    ("table_name", "TEXT PRIMARY KEY"),
    ("environment", "TEXT NOT NULL"),
    ("dataset", "TEXT NOT NULL"),
    ("version", "BIGINT NOT NULL"),
    ("run_id", "TEXT NOT NULL"),
    ("row_count", "BIGINT NOT NULL"),
    ("checksum", "TEXT NOT NULL"),
    ("copied_at", "TIMESTAMP WITH TIME ZONE NOT NULL"),
)
# Column of a table of changes: true for the key of rows to delete. No dataset's column has a name with a space.
GONE = CopyColumn("is gone", "boolean", "boolean", INCLUDE)
# Waits before a failed copy is made again: the first one, and the longest.
FIRST_WAIT, LONGEST_WAIT = timedelta(minutes=10), timedelta(hours=6)


@dataclass(frozen=True)
class Registered:
    """Row of the table ``elevata_copies``."""

    environment: str
    dataset: str
    version: int
    run_id: str
    row_count: int
    checksum: str


@dataclass(frozen=True)
class Content:
    """Number of rows of a target's table, and their checksum."""

    row_count: int
    checksum: str


def qualified(table: str) -> str:
    """Return ``schema.name``, quoted."""
    schema, _, name = table.partition(".")
    return f"{quote_standard_identifier(schema)}.{quote_standard_identifier(name)}"


def beside(target: CopyTarget) -> str:
    """Return the name of the table that is written before it takes the place of the target's."""
    return f"{target.table.partition('.')[0]}.{BESIDE}{UUID(target.key).hex}"


def rename_table(former: str, target: CopyTarget) -> list[str]:
    """Return the statements of PostgreSQL that give a target's former table its present name.

    A table that gets another schema and name has a third name between, because both schemas may have one of either.
    """
    (old_schema, _, old_name), (schema, _, name) = former.partition("."), target.table.partition(".")
    between = f"{BESIDE}{UUID(target.key).hex}_moving"
    if old_schema == schema:
        return [f"ALTER TABLE {qualified(former)} RENAME TO {quote_standard_identifier(name)}"]
    moved = old_name if old_name == name else between
    rename = f"ALTER TABLE {qualified(former)} RENAME TO {quote_standard_identifier(between)}"
    move = f"ALTER TABLE {qualified(f'{old_schema}.{moved}')} SET SCHEMA {quote_standard_identifier(schema)}"
    final = f"ALTER TABLE {qualified(f'{schema}.{between}')} RENAME TO {quote_standard_identifier(name)}"
    return [move] if moved == old_name else [rename, move, final]


def create_register(name: str) -> str:
    columns = ", ".join(f"{column} {type_}" for column, type_ in REGISTER_COLUMNS)
    return f"CREATE TABLE IF NOT EXISTS {name} ({columns})"


def create_table(name: str, columns: Iterable[CopyColumn]) -> str:
    """Return the statement that creates a table with these columns."""
    definitions = ", ".join(f"{quote_standard_identifier(column.name)} {column.physical}" for column in columns)
    return f"CREATE TABLE {name} ({definitions})"


def names(columns: Iterable[str]) -> str:
    return ", ".join(quote_standard_identifier(column) for column in columns)


def content_query(table: str, alias: str = "t") -> str:
    """Return the query of PostgreSQL for number and checksum of rows; ``table`` is quoted."""
    return f"SELECT count(*), {checksum(alias)} FROM {table} {alias}"


def checksum(alias: str) -> str:
    return f"coalesce(sum(('x' || substr(md5({alias}::text), 1, 15))::bit(60)::bigint), 0)"


def apply_changes(table: str, changes: str, columns: Sequence[str], keys: Sequence[str]) -> tuple[str, str]:
    """Return the statements that delete and insert rows; each returns number and checksum of its rows.

    ``changes`` has the rows to insert, and those to delete with their keys alone and ``GONE``; the names are quoted.
    """
    gone = quote_standard_identifier(GONE.name)
    same = " AND ".join(f"t.{quote_standard_identifier(key)} = c.{quote_standard_identifier(key)}" for key in keys)
    return (
        f"WITH deleted AS (DELETE FROM {table} t USING {changes} c WHERE c.{gone} AND {same} RETURNING t.*) "
        f"SELECT count(*), {checksum('deleted')} FROM deleted"
    ), (
        f"WITH inserted AS (INSERT INTO {table} ({names(columns)}) SELECT {names(columns)} FROM {changes} "
        f"WHERE NOT {gone} RETURNING {names(columns)}) SELECT count(*), {checksum('inserted')} FROM inserted"
    )


def count_changed(changes: str) -> str:
    """Return the query for the number of changed keys."""
    return f"SELECT count(*) FROM {changes} WHERE {quote_standard_identifier(GONE.name)}"


def check_owner(target: CopyTarget, table: str, place: str, *, exists: bool, row: Registered | None) -> None:
    """Raise Refusal COPY_FOREIGN unless the table is missing, or a copy of this dataset in this environment."""
    if row is not None and (row.environment != target.environment or row.dataset not in target.owners):
        owner = f"the copy of {row.dataset} of environment {row.environment}"
    elif row is None and exists:
        owner = "no copy that elevata made"
    else:
        return
    raise Refusal(
        FOREIGN,
        f"{table} in {place} is {owner}; it is not touched",
        hint="Give the copy another table, or remove that one by hand.",
    )


def check_outside_of_tables(target: CopyTarget, folders: Iterable[str], has_log: Callable[[str], bool]) -> None:
    """Raise Refusal COPY_FOREIGN if one of the folders above a copy is a Delta table, whose vacuums remove the copy."""
    table = next((folder for folder in folders if has_log(folder)), None)
    if table is not None:
        raise Refusal(
            FOREIGN,
            f"{target.table} in {target.location} is inside of the Delta table {table}",
            hint="Give the copy or its system another folder.",
        )


def is_current(target: CopyTarget, row: Registered | None, version: int, *, same_shape: bool) -> bool:
    """Return True if the target has this version of the table, with these columns."""
    if row is None or not same_shape or target.former_shape != target.shape:
        return False
    return row.version == version and target.former_table in ("", target.table)


def may_apply_changes(target: CopyTarget, row: Registered | None, version: int, *, same_shape: bool) -> bool:
    """Return True if a table with the former rows can become the present one by its changed keys."""
    if row is None or not target.keys or target.former_table not in ("", target.table):
        return False
    return same_shape and target.former_shape == target.shape and 0 <= row.version < version


def finding(
    target: CopyTarget, place: str, row: Registered | None, content: Content | None, version: int, *, same_shape: bool
) -> Refusal | None:
    """Return what differs between a target, its row in ``elevata_copies`` and the table; None if nothing does."""
    what = f"{target.table} in {place}"
    again = "Copy the dataset (tab Copies, manage.py copy), or load it."
    if row is None or content is None:
        return Refusal(BEHIND, f"{what} was not copied yet", hint=again)
    if (content.row_count, content.checksum) != (row.row_count, row.checksum):
        message = f"{what} was changed by another program: it has {content.row_count} rows, copied were {row.row_count}"
        return Refusal(DIFFERS, message, hint=again)
    if row.version != version:
        return Refusal(BEHIND, f"{what} has version {row.version}, the table has version {version}", hint=again)
    if not same_shape or target.former_shape != target.shape:
        return Refusal(BEHIND, f"{what} has other columns than described", hint=again)
    return None


def wait_after(failures: int) -> timedelta:
    """Return the wait after so many failures in a row."""
    doubled: int = 2 ** max(0, failures - 1)
    return min(FIRST_WAIT * doubled, LONGEST_WAIT)
