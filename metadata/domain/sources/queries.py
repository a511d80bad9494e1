"""Check of the SQL of a source: one SELECT, or one condition, in the database's own dialect.

The database's permissions decide what may be read. The check refuses SQL that changes or locks rows, a second
statement, and text that would end the parentheses around it.
"""

import re
from collections.abc import Mapping
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from elevata.core.errors import MetadataError
from metadata.domain.sources.database_locations import parse_database

# Dialects of sqlglot by kind of database (``metadata.domain.sources.database_locations.KINDS``).
_DIALECTS = {"postgresql": "postgres", "mariadb": "mysql", "mysql": "mysql", "sqlserver": "tsql", "oracle": "oracle"}
_REFUSED = (exp.DDL, exp.DML, exp.Drop, exp.Command, exp.Into, exp.Lock, exp.Set, exp.Transaction)
QUERY, FILTER = "query", "filter"
_SEMICOLON = sqlglot.TokenType.SEMICOLON


def check_queries(location: str, options: Mapping[str, Any]) -> None:
    """Check the query and filter among a table's options, in the SQL of the database at ``location``.

    Raise MetadataError ``sql_refused`` or ``sql_invalid``.
    """
    kind = parse_database(location).kind
    if query := options.get(QUERY):
        checked_select(query, kind)
    if condition := options.get(FILTER):
        checked_condition(condition, kind)


def checked_select(text: str, kind: str) -> str:
    """Return the query without comments and a semicolon at its end.

    Raise MetadataError ``sql_refused`` or ``sql_invalid``.
    """
    dialect = _DIALECTS[kind]
    plain = _without_comments(text, dialect, QUERY)
    try:
        trees = sqlglot.parse(plain, read=dialect)
    except (SqlglotError, RecursionError):
        raise _sql_invalid(QUERY) from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise _sql_refused(QUERY, "is not one SELECT")
    _check_nodes(trees[0], QUERY)
    return plain


def checked_condition(text: str, kind: str) -> str:
    """Return the condition without comments. Raise MetadataError ``sql_refused`` or ``sql_invalid``."""
    dialect = _DIALECTS[kind]
    plain = _without_comments(text, dialect, FILTER)
    try:
        trees = sqlglot.parse(f"SELECT 1 FROM t WHERE (\n{plain}\n)", read=dialect)
        parsed_condition = sqlglot.parse_one(plain, read=dialect, into=exp.Condition)
    except (SqlglotError, RecursionError):
        raise _sql_invalid(FILTER) from None
    tree = trees[0] if len(trees) == 1 else None
    where = tree.args.get("where") if isinstance(tree, exp.Select) else None
    if tree is None or where is None or where.this != exp.Paren(this=parsed_condition):
        raise _sql_refused(FILTER, "is not one condition")
    _check_nodes(tree, FILTER)
    return plain


def _without_comments(text: str, dialect: str, option: str) -> str:
    """Return the text with blanks in place of everything between tokens, so that comments hide nothing."""
    try:
        tokens = sqlglot.tokenize(text, read=dialect)
    except SqlglotError:
        raise _sql_invalid(option) from None
    if tokens and tokens[-1].token_type == _SEMICOLON and option == QUERY:
        tokens = tokens[:-1]
    if any(token.token_type == _SEMICOLON for token in tokens):
        raise _sql_refused(option, "has a second statement")
    parts, end = [], 0
    for token in tokens:
        if token.start >= end:
            parts += [re.sub(r"[^\n]", " ", text[end : token.start]), text[token.start : token.end + 1]]
            end = token.end + 1
    return "".join(parts).strip()


def _check_nodes(tree: exp.Expr, option: str) -> None:
    node = next(tree.find_all(*_REFUSED), None)
    if node is not None:
        raise _sql_refused(option, f"has {node.key.upper()}, and sources are only read")


def _sql_refused(option: str, reason: str) -> MetadataError:
    return MetadataError("sql_refused", f"{reason}. {_HINT}", f"options.{option}")


def _sql_invalid(option: str) -> MetadataError:
    return MetadataError("sql_invalid", f"cannot be read as SQL of its database. {_HINT}", f"options.{option}")


_HINT = "A query is one SELECT, a filter one condition like amount > 0, both in the SQL of the database"
