"""Check of the SQL of a source: one SELECT, or one condition, in the database's own dialect.

The database's permissions decide what may be read; the check refuses what changes or locks rows, a second statement,
and text that would end the parentheses around it.
"""

import re
from collections.abc import Mapping
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from elevata.core.errors import MetadataError
from metadata.domain.locations import parse_database

# Dialects of sqlglot by kind of database (``metadata.domain.locations.KINDS``).
_DIALECTS = {"postgresql": "postgres", "mariadb": "mysql", "mysql": "mysql", "sqlserver": "tsql", "oracle": "oracle"}
_REFUSED = (exp.DDL, exp.DML, exp.Drop, exp.Command, exp.Into, exp.Lock, exp.Set, exp.Transaction)
QUERY, FILTER = "query", "filter"
_SECOND = sqlglot.TokenType.SEMICOLON


def check_queries(location: str, options: Mapping[str, Any]) -> None:
    """Refuse a query or filter among the options of a table in the database at ``location``."""
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
    plain = _plain(text, dialect, QUERY)
    try:
        trees = sqlglot.parse(plain, read=dialect)
    except (SqlglotError, RecursionError):
        raise _invalid(QUERY) from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise _refused(QUERY, "is not one SELECT")
    _check(trees[0], QUERY)
    return plain


def checked_condition(text: str, kind: str) -> str:
    """Return the condition without comments. Raise MetadataError ``sql_refused`` or ``sql_invalid``."""
    dialect = _DIALECTS[kind]
    plain = _plain(text, dialect, FILTER)
    try:
        trees = sqlglot.parse(f"SELECT 1 FROM t WHERE (\n{plain}\n)", read=dialect)
        alone = sqlglot.parse_one(plain, read=dialect, into=exp.Condition)
    except (SqlglotError, RecursionError):
        raise _invalid(FILTER) from None
    where = trees[0].args.get("where") if len(trees) == 1 and isinstance(trees[0], exp.Select) else None
    if where is None or where.this != exp.Paren(this=alone):
        raise _refused(FILTER, "is not one condition")
    _check(trees[0], FILTER)
    return plain


def _plain(text: str, dialect: str, option: str) -> str:
    """Return the text with everything between tokens blanked, so that comments hide nothing."""
    try:
        tokens = sqlglot.tokenize(text, read=dialect)
    except SqlglotError:
        raise _invalid(option) from None
    if tokens and tokens[-1].token_type == _SECOND and option == QUERY:
        tokens = tokens[:-1]
    if any(token.token_type == _SECOND for token in tokens):
        raise _refused(option, "has a second statement")
    parts, done = [], 0
    for token in tokens:
        if token.start >= done:
            parts += [re.sub(r"[^\n]", " ", text[done : token.start]), text[token.start : token.end + 1]]
            done = token.end + 1
    return "".join(parts).strip()


def _check(tree: exp.Expression, option: str) -> None:
    found = next(tree.find_all(*_REFUSED), None)
    if found is not None:
        raise _refused(option, f"has {found.key.upper()}, and sources are only read")


def _refused(option: str, reason: str) -> MetadataError:
    return MetadataError("sql_refused", f"{reason}. {_HINT}", f"options.{option}")


def _invalid(option: str) -> MetadataError:
    return MetadataError("sql_invalid", f"cannot be read as SQL of its database. {_HINT}", f"options.{option}")


_HINT = "A query is one SELECT, a filter one condition like amount > 0, both in the SQL of the database"
