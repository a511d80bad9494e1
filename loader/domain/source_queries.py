"""Check of the SQL of a source: one SELECT, or one condition, in the database's own dialect.

The database's permissions decide what may be read; the check refuses what changes or locks rows, a second statement,
and text that would end the parentheses around it.
"""

import re

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from loader.domain.refusals import Refusal

_REFUSED = (exp.DDL, exp.DML, exp.Drop, exp.Command, exp.Into, exp.Lock, exp.Set, exp.Transaction)
_SECOND = sqlglot.TokenType.SEMICOLON


def checked_select(text: str, dialect: str, source: str) -> str:
    """Return the query without comments and a semicolon at its end. Raise Refusal SQL_REFUSED or SQL_INVALID."""
    plain = _plain(text, dialect, source, "query")
    try:
        trees = sqlglot.parse(plain, read=dialect)
    except (SqlglotError, RecursionError):
        raise _invalid(source, "query") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise _refused(source, "query", "is not one SELECT")
    _check(trees[0], source, "query")
    return plain


def checked_condition(text: str, dialect: str, source: str) -> str:
    """Return the condition without comments. Raise Refusal SQL_REFUSED or SQL_INVALID."""
    plain = _plain(text, dialect, source, "filter")
    try:
        trees = sqlglot.parse(f"SELECT 1 FROM t WHERE (\n{plain}\n)", read=dialect)
        alone = sqlglot.parse_one(plain, read=dialect, into=exp.Condition)
    except (SqlglotError, RecursionError):
        raise _invalid(source, "filter") from None
    where = trees[0].args.get("where") if len(trees) == 1 and isinstance(trees[0], exp.Select) else None
    if where is None or where.this != exp.Paren(this=alone):
        raise _refused(source, "filter", "is not one condition")
    _check(trees[0], source, "filter")
    return plain


def _plain(text: str, dialect: str, source: str, option: str) -> str:
    """Return the text with everything between tokens blanked, so that comments hide nothing."""
    try:
        tokens = sqlglot.tokenize(text, read=dialect)
    except SqlglotError:
        raise _invalid(source, option) from None
    if tokens and tokens[-1].token_type == _SECOND and option == "query":
        tokens = tokens[:-1]
    if any(token.token_type == _SECOND for token in tokens):
        raise _refused(source, option, "has a second statement")
    parts, done = [], 0
    for token in tokens:
        if token.start >= done:
            parts += [re.sub(r"[^\n]", " ", text[done : token.start]), text[token.start : token.end + 1]]
            done = token.end + 1
    return "".join(parts).strip()


def _check(tree: exp.Expression, source: str, option: str) -> None:
    found = next(tree.find_all(*_REFUSED), None)
    if found is not None:
        raise _refused(source, option, f"has {found.key.upper()}, and sources are only read")


def _refused(source: str, option: str, reason: str) -> Refusal:
    return Refusal("SQL_REFUSED", f"{source}: the option {option} {reason}", hint=_HINT)


def _invalid(source: str, option: str) -> Refusal:
    return Refusal("SQL_INVALID", f"{source}: the option {option} cannot be read as SQL of its database", hint=_HINT)


_HINT = "A query is one SELECT, a filter one condition like amount > 0, both in the SQL of the database."
