"""SQL of a model for Spark: relations instead of dataset names, SQL instead of helpers and placeholders.

The text is changed in place, never generated from the syntax tree, because sqlglot and Spark interpret some literals
differently.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from metadata.domain.history.history_columns import VALID_FROM, VALID_TO
from metadata.domain.models.statement import (
    AS_OF,
    CURRENT,
    SURROGATE_KEY,
    Statement,
    parse_model,
    start_of,
)
from metadata.domain.sql import PLACEHOLDERS, quote_identifier, words

# Words that end the condition of a join.
_AFTER_CONDITION = words(
    """
    join inner left right full cross natural semi anti where group having order sort cluster distribute limit offset
    window union except minus intersect lateral qualify
    """
)


@dataclass(frozen=True)
class Change:
    """Text that replaces the characters from ``start`` up to ``end``."""

    start: int
    end: int
    text: str


def versions_of(name: str) -> str:
    """Return the key of the live versions of a history among the relations of ``bind_select``."""
    return f"versions({name.lower()})"


def reads_of(text: str) -> tuple[str, ...]:
    """Return the qualified names that a SELECT reads, in the order of their first use."""
    statement = parse_model(text)
    names = {name.lower(): name for name in reversed([statement.dataset_of(table) for table in statement.tables])}
    return tuple(reversed(names.values()))


def relations_of(text: str) -> tuple[str, ...]:
    """Return the keys of the relations that ``bind_select`` needs, in lower case.

    These are names of datasets, and ``versions(schema.history)`` for a history in a helper: its live versions, with
    their half-open intervals as ``__valid_from`` and ``__valid_to`` (NULL while a version is open).
    """
    statement = parse_model(text)
    return tuple(dict.fromkeys(_relation(statement, table) for table in statement.tables))


def bind_select(text: str, relations: Mapping[str, str], values: Mapping[str, str]) -> str:
    """Return the SELECT for Spark.

    ``relations`` are SQL by the keys of ``relations_of``, ``values`` SQL by name of a placeholder. Comments become
    blanks.
    """
    statement = parse_model(text)
    for offset, name in statement.placeholders.items():
        if name not in values:
            raise statement.problem(offset, f"{{{{ {name} }}}} has no value here: a view has no load")
    changes = [
        Change(offset, offset + len(_placeholder(statement, offset)), values[name])
        for offset, name in statement.placeholders.items()
    ]
    changes += _column_changes(statement)
    changes += _surrogate_keys(statement)
    helpers: list[tuple[exp.Table, str]] = []
    for table in statement.tables:
        key = _relation(statement, table)
        if key not in relations:
            raise statement.problem(table, f"{statement.dataset_of(table)} is no described dataset", "unknown_dataset")
        if isinstance(table.this, exp.Anonymous):
            helpers.append((table, relations[key]))
        else:
            first, last = table.parts[0].meta["start"], table.this.meta["end"] + 1
            alias = "" if table.alias else f" AS {quote_identifier(table.name)}"
            changes.append(Change(first, last, relations[key] + alias))
    # A helper contains the changes within its arguments and its condition, all of which are later in the text.
    for table, relation in reversed(helpers):
        changes = _with_helper(statement, table, relation, changes)
    return changed(statement.plain, changes).strip().rstrip(";")


@lru_cache(maxsize=1024)
def check_binding(text: str) -> None:
    """Raise ModelProblem if a helper cannot become SQL where it is."""
    bind_select(text, dict.fromkeys(relations_of(text), "x"), dict.fromkeys(PLACEHOLDERS, "NULL"))


def changed(text: str, changes: Sequence[Change], start: int = 0, end: int | None = None) -> str:
    """Return the text from ``start`` to ``end`` with the changes within."""
    end = len(text) if end is None else end
    parts, done = [], start
    for change in sorted(set(changes), key=lambda change: (change.start, change.end)):
        if start <= change.start and change.end <= end:
            parts += [text[done : change.start], change.text]
            done = change.end
    return "".join([*parts, text[done:end]])


def _placeholder(statement: Statement, offset: int) -> str:
    end = statement.text.index("}}", offset) + 2
    return statement.text[offset:end]


def _relation(statement: Statement, table: exp.Table) -> str:
    name = statement.dataset_of(table)
    return versions_of(name) if isinstance(table.this, exp.Anonymous) else name.lower()


def _column_changes(statement: Statement) -> Iterator[Change]:
    """Yield the changes of columns that are named with their schema: the table's alias has none."""
    for column in statement.columns:
        if column.args.get("db") and isinstance(column.args["db"], exp.Identifier):
            start, end = column.args["db"].meta["start"], column.args["table"].meta["end"] + 1
            yield Change(start, end, quote_identifier(column.table))


def _surrogate_keys(statement: Statement) -> Iterator[Change]:
    """Yield the changes of surrogate keys: a hash of the values as JSON, in which NULL and text cannot be confused.

    The values are numbered, so that the rename of a column changes no key.
    """
    for call in statement.calls:
        if call.name.lower() == SURROGATE_KEY:
            start = start_of(call)
            opening, *commas, close = separators(statement.tokens, start)
            # sha2 of a text is never NULL, which Spark does not know.
            yield Change(start, opening.end + 1, "coalesce(sha2(to_json(struct(")
            for number, comma in enumerate(commas, start=1):
                yield Change(comma.start, comma.end + 1, f" AS v{number},")
            yield Change(close.start, close.end + 1, f" AS v{len(commas) + 1})), 256), '')")


def separators(tokens: Sequence[Token], start: int) -> list[Token]:
    """Return the parentheses and commas of a call whose name starts at an offset, without those of calls within."""
    separators, depth = [], 0
    for token in tokens:
        if token.start < start:
            continue
        if token.token_type == TokenType.L_PAREN:
            depth += 1
        if depth == 1 and token.token_type in (TokenType.L_PAREN, TokenType.COMMA, TokenType.R_PAREN):
            separators.append(token)
        if token.token_type == TokenType.R_PAREN:
            depth -= 1
            if depth == 0:
                break
    return separators


def _with_helper(statement: Statement, table: exp.Table, relation: str, changes: Sequence[Change]) -> list[Change]:
    """Return the changes with those of a helper, which contain the ones within its arguments and its condition.

    ``as_of`` a column of another table is a condition of the join (a point-in-time join). For all other moments it is a
    subquery.
    """
    call = table.this
    start, end = start_of(call), separators(statement.tokens, start_of(call))[-1].end + 1
    alias = table.alias or call.expressions[0].name
    named = "" if table.alias else f" AS {quote_identifier(alias)}"
    name = call.name.lower()
    outside = [change for change in changes if change.end <= start or change.start >= end]
    if name == CURRENT:
        return [*outside, Change(start, end, f"(SELECT * FROM {relation} WHERE {VALID_TO} IS NULL){named}")]
    if name != AS_OF:
        return [*outside, Change(start, end, relation + named)]
    moment = changed(statement.plain, changes, separators(statement.tokens, start)[1].end + 1, end - 1).strip()
    if not _reads_columns(statement, call.expressions[1]):
        return [*outside, Change(start, end, f"(SELECT * FROM {relation} WHERE {_holds('', moment)}){named}")]
    condition = _condition(statement.tokens, end)
    if condition is None or not isinstance(table.parent, exp.Join):
        raise statement.problem(
            call.expressions[1], "as_of a column needs a join with ON: it joins the version that held at that time"
        )
    first, last = condition
    inner = changed(statement.plain, outside, first, last).strip()
    kept = [change for change in outside if change.end <= first or change.start >= last]
    holds = _holds(f"{quote_identifier(alias)}.", moment)
    return [*kept, Change(start, end, relation + named), Change(first, last, f" ({inner}) AND ({holds}) ")]


def _holds(alias: str, moment: str) -> str:
    return f"{alias}{VALID_FROM} <= ({moment}) AND ({alias}{VALID_TO} IS NULL OR {alias}{VALID_TO} > ({moment}))"


def _reads_columns(statement: Statement, moment: exp.Expr) -> bool:
    return any(start_of(column) not in statement.placeholders for column in moment.find_all(exp.Column))


def _condition(tokens: Sequence[Token], after: int) -> tuple[int, int] | None:
    """Return the span of the ON condition that follows an offset; None if the join has none."""
    depth, begin = 0, None
    following = [token for token in tokens if token.start >= after]
    for token, successor in zip(following, [*following[1:], None], strict=False):
        if token.token_type == TokenType.L_PAREN:
            depth += 1
        elif token.token_type == TokenType.R_PAREN:
            depth -= 1
            if depth < 0:
                return (begin, token.start) if begin is not None else None
        elif depth == 0 and token.token_type == TokenType.ON and begin is None:
            begin = token.end + 1
        elif depth == 0 and _ends_condition(token, successor):
            return (begin, token.start) if begin is not None else None
    return (begin, following[-1].end + 1) if begin is not None else None


def _ends_condition(token: Token, successor: Token | None) -> bool:
    if token.token_type == TokenType.COMMA:
        return True
    is_call = successor is not None and successor.token_type == TokenType.L_PAREN
    is_word = token.token_type not in (TokenType.IDENTIFIER, TokenType.STRING, TokenType.VAR)
    word = token.text.lower().partition(" ")[0]  # GROUP BY is one token
    return is_word and word in _AFTER_CONDITION and not (is_call and word in ("left", "right"))
