"""Syntax of a model: one SELECT of Spark's SQL over datasets that are named with their schema.

A model also has placeholders (``{{ load_timestamp }}``) and helpers, which ``binding`` replaces by SQL: table functions
over a history (``as_of``, ``versions``, ``current``) and ``surrogate_key``. Functions are parsed with the names that
the text gives them, because sqlglot's own nodes do not say which function of Spark was meant.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from elevata.core.errors import MetadataError
from metadata.domain.models import functions
from metadata.domain.select_check import Allowed, Select, SelectProblem, position, read_select
from metadata.domain.sql import PLACEHOLDER, PLACEHOLDERS, clock_at, clock_message, placeholder_name

AS_OF, VERSIONS, CURRENT = "as_of", "versions", "current"
HELPERS = (AS_OF, VERSIONS, CURRENT)
SURROGATE_KEY = "surrogate_key"

_NAME = re.compile(rf"\b__({'|'.join(PLACEHOLDERS)})_+\b")
_WITH_OWN_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "POSITION", "SUBSTRING", "SUBSTR", "OVERLAY")


class ModelProblem(MetadataError):
    """Error for the SELECT of a model."""

    def __init__(self, message: str, code: str = "bad_select") -> None:
        super().__init__(code, message, "select")


class _Parser(SparkParser):
    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    FUNCTION_PARSERS = {
        name: parser for name, parser in SparkParser.FUNCTION_PARSERS.items() if name in _WITH_OWN_SYNTAX
    }
    STRICT_CAST = True
    ADD_JOIN_ON_TRUE = False


class ModelSql(Spark):
    """Spark's SQL with functions by their names in the text."""

    Parser = _Parser


_ALLOWED = Allowed(ModelSql, functions.NAMES, HELPERS)


@dataclass(frozen=True)
class Statement:
    """Parsed SELECT of a model.

    ``plain`` has blanks instead of comments and names of the same length instead of placeholders, so that positions
    are those of ``text``. ``placeholders`` are their names by position. ``tables`` are the datasets and helpers in the
    order of the text, without common table expressions. ``names`` are all names that columns may have in it, in lower
    case, and ``has_star`` is True if it has a ``*`` that brings columns.
    """

    text: str
    plain: str
    tokens: Sequence[Token]
    tree: exp.Expr
    placeholders: dict[int, str]
    calls: Sequence[exp.Anonymous]
    columns: Sequence[exp.Column]
    tables: Sequence[exp.Table]
    names: frozenset[str]
    has_star: bool

    def problem(self, node: exp.Expr | int, message: str, code: str = "bad_select") -> ModelProblem:
        """Return an error at a node or offset."""
        offset = node if isinstance(node, int) else start_of(node)
        return ModelProblem(f"{position(self.text, offset)}: {message}", code)

    def dataset_of(self, table: exp.Table) -> str:
        """Return the qualified name that a table or the helper in its place reads, as it is written."""
        name = table.this.expressions[0] if isinstance(table.this, exp.Anonymous) else table
        parts = [part.name for part in name.parts]
        if len(parts) != 2:
            written = ".".join(parts)
            raise self.problem(name, f"{written} is no dataset: name it with its schema", "unknown_dataset")
        return ".".join(parts)


@lru_cache(maxsize=512)
def parse_model(text: str) -> Statement:
    """Return the parsed SELECT. Raise ModelProblem, with line and column, if a model cannot have it."""
    placeholders: dict[int, str] = {}
    names = PLACEHOLDER.sub(lambda match: _named(text, match, placeholders), text)
    try:
        select = read_select(names, _ALLOWED)
        _check_tokens(text, select.tokens, placeholders)
    except SelectProblem as problem:
        raise ModelProblem(problem.message) from None
    statement = _statement(text, select, placeholders)
    _check_joins(statement, select.nodes)
    _check_helpers(statement)
    return statement


def _statement(text: str, select: Select, placeholders: dict[int, str]) -> Statement:
    calls = [node for node in select.nodes if isinstance(node, exp.Anonymous)]
    columns = [node for node in select.nodes if isinstance(node, exp.Column)]
    derived = {node.alias.lower() for node in select.nodes if isinstance(node, exp.CTE)}
    tables = [node for node in select.nodes if isinstance(node, exp.Table)]
    tables = [node for node in tables if node.db or node.name.lower() not in derived]
    tables.sort(key=start_of)
    names = {each.name.lower() for each in columns} | {each.name.lower() for each in _listed_names(select.nodes)}
    has_star = any(node.is_star for each in select.nodes if isinstance(each, exp.Select) for node in each.expressions)
    return Statement(
        text, select.plain, select.tokens, select.tree, placeholders, calls, columns, tables, frozenset(names), has_star
    )


def _listed_names(nodes: Sequence[exp.Expr]) -> Iterator[exp.Expr]:
    """Yield the names of columns that are no expressions: those of USING and EXCEPT."""
    for node in nodes:
        if isinstance(node, exp.Join):
            yield from node.args.get("using") or ()
        elif isinstance(node, exp.Star):
            yield from node.args.get("except_") or ()


def _named(text: str, match: re.Match[str], placeholders: dict[int, str]) -> str:
    name = placeholder_name(match)
    if name not in PLACEHOLDERS:
        known = " and ".join(f"{{{{ {name} }}}}" for name in PLACEHOLDERS)
        raise ModelProblem(f"{position(text, match.start())}: {match[0]} is not known; known are {known}")
    placeholders[match.start()] = name
    return f"__{name}__".ljust(len(match[0]), "_")


def with_placeholders(sql: str) -> str:
    """Return SQL of a part of the tree with placeholders as in the text."""
    return _NAME.sub(r"{{ \1 }}", sql)


def _check_tokens(text: str, tokens: Sequence[Token], placeholders: dict[int, str]) -> None:
    starts = {token.start for token in tokens if token.token_type == TokenType.VAR}
    for offset, name in placeholders.items():
        if offset not in starts:
            message = f"{{{{ {name} }}}} stands for a whole value; it cannot be inside quotes or a comment"
            raise ModelProblem(f"{position(text, offset)}: {message}")
    for index, token in enumerate(tokens):
        clock = clock_at(tokens, index)
        if clock:
            raise ModelProblem(f"{position(text, token.start)}: {clock_message(clock)}")


def _check_joins(statement: Statement, nodes: Sequence[exp.Expr]) -> None:
    """Refuse a join between another join and its condition, which Spark cannot parse."""
    for node in nodes:
        inner = node.this.args.get("joins") if isinstance(node, exp.Join) else None
        if inner:
            raise statement.problem(inner[0], "a join has its condition right after its table: set it in parentheses")


def _check_helpers(statement: Statement) -> None:
    for table in statement.tables:
        if isinstance(table.this, exp.Anonymous):
            name, arguments = table.this.name.lower(), table.this.expressions
            if len(arguments) != (2 if name == AS_OF else 1) or not isinstance(arguments[0], exp.Column):
                form = "as_of(schema.history, moment)" if name == AS_OF else f"{name}(schema.history)"
                raise statement.problem(table.this, f"{name} takes a history: {form}")
    for call in statement.calls:
        if call.name.lower() in HELPERS and not isinstance(call.parent, exp.Table):
            raise statement.problem(call, f"{call.name} stands in FROM or JOIN")


def start_of(node: exp.Expr) -> int:
    """Return the offset of the first token of a node that sqlglot has the position of; 0 if there is none."""
    if "start" in node.meta:
        start: int = node.meta["start"]
        return start
    return min((item.meta["start"] for item in node.walk() if "start" in item.meta), default=0)
