"""Statements that define every name of a catalog in another engine (DuckDB, Spark): tables before the views on them."""

import re
from collections.abc import Sequence
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from loader.contract.refusals import Refusal
from loader.domain.catalogs.catalog import TABLE, Entry
from metadata.domain.sql import quote_identifier, quote_standard_identifier, quote_standard_text, quote_text

DUCKDB, SPARK = "duckdb", "spark"


def render(entries: Sequence[Entry], engine: str) -> str:
    """Return the statements that define all entries in ``duckdb`` or ``spark``, each with a semicolon."""
    name, table, view = {
        DUCKDB: (quote_standard_identifier, _duckdb_table, _duckdb_view),
        SPARK: (quote_identifier, _spark_table, _spark_view),
    }[engine]
    schemas = sorted({entry.parts[0] for entry in entries})
    statements = [f"CREATE SCHEMA IF NOT EXISTS {name(schema)}" for schema in schemas]
    statements += [table(entry) if entry.kind == TABLE else view(entry) for entry in entries]
    return "".join(f"{statement};\n" for statement in statements)


def _duckdb_table(entry: Entry) -> str:
    """Return a view over a Delta table, without partition columns.

    DuckDB's reader returns NULL for the partition columns of a table with column mapping.
    """
    location = re.sub(r"\As3[an]://", "s3://", entry.location or "")
    left_out = ", ".join(map(quote_standard_identifier, entry.table.partition_by))
    columns = f"* EXCLUDE ({left_out})" if left_out else "*"
    name = _sql_name(entry, quote_standard_identifier)
    return f"CREATE OR REPLACE VIEW {name} AS SELECT {columns} FROM delta_scan({quote_standard_text(location)})"


def _duckdb_view(entry: Entry) -> str:
    query = duckdb_query(entry.portable or entry.query or "")
    return f"CREATE OR REPLACE VIEW {_sql_name(entry, quote_standard_identifier)} AS {query}"


def duckdb_query(query: str) -> str:
    """Return the query of a view in DuckDB's SQL. Raise Refusal NOT_TRANSLATED if it cannot be parsed."""
    try:
        tree = sqlglot.parse_one(query, read="spark")
        return tree.transform(_strict_cast).sql("duckdb")
    except (SqlglotError, ValueError) as error:
        raise Refusal("NOT_TRANSLATED", f"the query cannot be written for DuckDB: {error}") from error


def _strict_cast(node: exp.Expr) -> exp.Expr:
    """Return a cast that fails like that of Spark; sqlglot translates Spark's CAST to one that returns NULL."""
    if isinstance(node, exp.TryCast) and not node.args.get("safe"):
        return exp.Cast(**node.args)
    return node


def _spark_table(entry: Entry) -> str:
    location = quote_text(entry.location or "")
    return f"CREATE TABLE IF NOT EXISTS {_sql_name(entry, quote_identifier)} USING delta LOCATION {location}"


def _spark_view(entry: Entry) -> str:
    return f"CREATE OR REPLACE VIEW {_sql_name(entry, quote_identifier)} AS\n{entry.query}"


def _sql_name(entry: Entry, quoted: Any) -> str:
    return ".".join(map(quoted, entry.parts))
