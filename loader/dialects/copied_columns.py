"""Columns of a copy, with their types in the target."""

from collections.abc import Collection

from architecture.domain.tables import TableSpec
from elevata.core.canonical_json import sha256_hex
from loader.contract.manifest.copies import CopyColumn
from loader.contract.refusals import Refusal
from loader.dialects.dialect import Dialect
from loader.dialects.duckdb import DuckDb
from loader.dialects.postgres import Postgres
from loader.dialects.refusals import NotRendered
from metadata.domain.copies import DUCKDB, HASH, INCLUDE, JDBC, LEAVE_OUT
from metadata.domain.types import STRING, DataType, parse

_DIALECTS: dict[str, Dialect] = {JDBC: Postgres(), DUCKDB: DuckDb()}


def copied_columns(
    table: TableSpec, kind: str, *, sensitive: Collection[str], treatment: str
) -> tuple[CopyColumn, ...]:
    """Return the columns of a copy in a system of this kind.

    ``sensitive`` are names in lower case, which get the ``treatment``: leave_out, hash or include. Raise Refusal
    NOT_RENDERED for a name that the target does not take.
    """
    columns = []
    for column in table.columns:
        chosen = treatment if column.name.lower() in sensitive else INCLUDE
        if chosen == LEAVE_OUT:
            continue
        stored = DataType(STRING) if chosen == HASH else parse(column.type)
        is_key = column.purpose == "business_key"
        physical = _physical(kind, column.name, stored)
        columns.append(CopyColumn(column.name, str(stored), physical, chosen, is_key))
    return tuple(columns)


def shape_of(columns: Collection[CopyColumn]) -> str:
    """Return a digest of columns, types and treatments."""
    return sha256_hex([[column.name, column.type, column.physical, column.treatment] for column in columns])[:32]


def _physical(kind: str, name: str, stored: DataType) -> str:
    dialect = _DIALECTS.get(kind)
    if dialect is None:
        return ""
    try:
        dialect.identifier(name)
        return dialect.type_of(stored)
    except NotRendered as problem:
        message = f"column {name} cannot be copied: {problem.message}"
        raise Refusal("NOT_RENDERED", message, hint="Rename the column, or copy it to another system.") from None
