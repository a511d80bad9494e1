"""Names of tables in published queries, their rewriting for a dry run on clones, and comparison of queries."""

import re
from collections.abc import Iterable, Mapping

import sqlglot
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from metadata.domain.sql import quote_identifier

_VIEW = re.compile(r"\s*CREATE\s+(OR\s+REPLACE\s+)?(VIEW|FUNCTION)\b", re.IGNORECASE)


def query_of(sql: str) -> str:
    """Return the query in a statement that publishes a view; any other text unchanged.

    Return an empty text for a table function: its query has parameters, so it cannot run by itself.
    """
    match = _VIEW.match(sql)
    if match is None:
        return sql
    if match[2].upper() == "FUNCTION":
        return ""
    tokens = sqlglot.tokenize(sql, read="spark")
    for token, following in zip(tokens, tokens[1:], strict=False):
        if token.token_type == TokenType.ALIAS and following.token_type in (TokenType.SELECT, TokenType.WITH):
            return sql[following.start :]
    return ""


def same_sql(text: str, other: str) -> bool:
    """Return True if both texts are the same SQL, apart from comments and spaces."""
    return text == other or _parts(text) == _parts(other)


def _parts(sql: str) -> list[tuple[TokenType, str]]:
    """Return the tokens of SQL as written; the whole text as one if it is no SQL."""
    try:
        return [(token.token_type, sql[token.start : token.end + 1]) for token in sqlglot.tokenize(sql, read="spark")]
    except TokenError:
        return [(TokenType.UNKNOWN, sql)]


def with_other_names(sql: str, names: Mapping[str, str]) -> str:
    """Return ``sql`` with tables renamed: ``names`` maps ``schema.name`` in lower case to quoted SQL.

    Only whole names are replaced, quoted or not; string literals and columns are unchanged.
    """
    tokens = sqlglot.tokenize(sql, read="spark")
    parts, done, place = [], 0, 0
    while place < len(tokens):
        replacement = names.get(_name_at(tokens, place))
        if replacement is not None:
            parts += [sql[done : tokens[place].start], replacement]
            place += 2
            done = tokens[place].end + 1
        place += 1
    return "".join([*parts, sql[done:]])


def _name_at(tokens: list[Token], place: int) -> str:
    """Return the two-part name ``schema.name`` at this position in lower case; empty if there is none."""
    three = tokens[place : place + 3]
    if len(three) < 3 or three[1].token_type != TokenType.DOT:
        return ""
    if place and tokens[place - 1].token_type == TokenType.DOT:
        return ""
    if any(token.token_type in (TokenType.STRING, TokenType.NUMBER) for token in three):
        return ""
    return f"{three[0].text}.{three[2].text}".lower()


def renamed_schemas(qualified_names: Iterable[str], prefix: str) -> dict[str, str]:
    """Return published names with their names in schemas with the prefix, for ``with_other_names``."""
    renamed = {}
    for published in qualified_names:
        schema, _, name = published.partition(".")
        renamed[published.lower()] = f"{quote_identifier(prefix + schema)}.{quote_identifier(name)}"
    return renamed
