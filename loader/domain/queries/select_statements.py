"""Read-only queries over published names: check, rewriting of names, columns used and lineage of masked columns.

Pure. The check is an allow-list of statements, sources and functions; it also checks the tokens, because the syntax
tree loses parts of the text. The runner gets the same text with comments blanked and each published name replaced
by the name of a temporary view, and checks Spark's own plan again (``loader.spark.queries``).
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, build_scope
from sqlglot.tokens import Token, TokenType

from loader.domain.refusals import Refusal
from metadata.domain.sql import FUNCTIONS as SCALAR_FUNCTIONS
from metadata.domain.sql import quote_identifier
from metadata.domain.variables import VARIABLE

MAX_LENGTH = 20_000
MOST_ROWS = 10_000
# Codes of queries that were not started, or that Spark did not understand.
REFUSED, INVALID, UNKNOWN = "SQL_REFUSED", "SQL_INVALID", "UNKNOWN_NAME"
FAILED = "SQL_FAILED"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# No function that reads a file or a secret, calls Java, Python or a program, or reveals facts about the server.
FUNCTIONS = SCALAR_FUNCTIONS | _words(
    """
    aggregate any any_value approx_count_distinct approx_percentile array array_agg array_compact array_contains
    array_distinct array_except array_intersect array_join array_max array_min array_position array_remove array_size
    array_sort array_union arrays_overlap arrays_zip avg bit_and bit_count bit_or bit_xor bool_and bool_or btrim
    cardinality cbrt collect_list collect_set contains corr count count_if covar_pop covar_samp cos cot cume_dist
    current_date current_timestamp date_part date_sub dateadd date_add day dayname dense_rank element_at elt every
    exists explode explode_outer extract filter find_in_set first first_value flatten forall format_number
    from_json get grouping grouping_id histogram_numeric hypot ilike inline json_array_length json_object_keys
    json_tuple kurtosis lag last last_value lead like listagg map map_entries map_filter map_from_arrays
    map_from_entries map_keys map_values max max_by mean median min min_by mode monthname named_struct now ntile
    nth_value percent_rank percentile percentile_approx percentile_cont percentile_disc posexplode
    posexplode_outer product rank reduce regexp regexp_count regexp_extract_all regexp_instr regexp_substr regr_avgx
    regr_avgy regr_count regr_intercept regr_r2 regr_slope rlike round row_number session_window shuffle sin size
    skewness slice some sort_array split sqrt stack std stddev stddev_pop stddev_samp string_agg struct sum tan
    timestampadd timestampdiff to_char to_json to_number to_varchar transform_keys transform_values try_avg
    try_element_at try_sum typeof var_pop var_samp variance width_bucket window
    """
)
# Words before a parenthesis that are no functions; quoted, they would be.
_WORDS = _words(
    """
    all and any anti as between by case cross cube distinct else escape except exists filter for from full group
    having ilike in inner intersect interval is join lateral left like limit minus not offset on or over partition
    pivot regexp right rlike rollup select semi sets some then union unpivot using values when where with
    """
)
_TYPES_WITH_MEASURES = _words("decimal numeric dec varchar char")
_BEGINS = (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN, TokenType.FROM, TokenType.VALUES)
_NOT_ALLOWED_TOKENS = {
    TokenType.PLACEHOLDER: "a parameter",
    TokenType.PIPE_GT: "|>",
    TokenType.RAW_STRING: "a raw literal",
    TokenType.NATIONAL_STRING: "a national literal",
}
_STRINGS = (TokenType.STRING, TokenType.NUMBER)
_NOT_ALLOWED = (
    exp.DDL,
    exp.DML,
    exp.Drop,
    exp.Command,
    exp.Into,
    exp.Lock,
    exp.Parameter,
    exp.Placeholder,
    exp.SessionParameter,
    exp.QueryTransform,
    exp.TableSample,
    exp.Unnest,
)
_SOURCES = (exp.Table, exp.Subquery, exp.Values, exp.Lateral, exp.Paren)
_OF_TABLE = {"this", "db", "alias", "joins", "laterals", "pivots"}
_TEMPORARY = "__published_"


@dataclass(frozen=True)
class CheckedQuery:
    """Query that may run.

    ``query`` is the text for Spark, in which ``views`` (temporary view by published name) replace names;
    ``replaced`` maps its positions to those of ``text``: start and length there, start and length here. ``columns``
    are the names in it in lower case, None if it uses columns without naming them.
    """

    text: str
    query: str
    views: Mapping[str, str]
    replaced: tuple[tuple[int, int, int, int], ...] = ()
    columns: frozenset[str] | None = None

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the published names that the query reads, in the order of their first use."""
        return tuple(self.views)

    def uses(self, column: str) -> bool:
        return self.columns is None or column.lower() in self.columns


def check_query(text: str, published: Collection[str]) -> CheckedQuery:
    """Return the checked query. Raise Refusal SQL_REFUSED, SQL_INVALID or UNKNOWN_NAME, saying where.

    ``published`` are names as ``schema.name``.
    """
    if len(text) > MAX_LENGTH:
        raise Refusal(REFUSED, f"the query is longer than {MAX_LENGTH} characters")
    if "\x00" in text:
        raise _refused(text, text.index("\x00"), "a NUL byte is not allowed")
    if VARIABLE in text:
        raise _refused(text, text.index(VARIABLE), f"{VARIABLE} is not allowed: it would stand for a variable")
    try:
        return _checked(text, {name.lower(): name for name in published})
    except RecursionError:
        raise Refusal(REFUSED, "the query is nested too deeply") from None


def _checked(text: str, published: Mapping[str, str]) -> CheckedQuery:
    tokens = _tokens(text)
    if not tokens:
        raise Refusal(INVALID, "line 1, column 1: the query is empty")
    if tokens[-1].token_type == TokenType.SEMICOLON:
        tokens = tokens[:-1]
    if not tokens or tokens[0].token_type not in _BEGINS:
        raise _refused(text, tokens[0].start if tokens else 0, "only one SELECT can be run")
    second = next((token for token in tokens if token.token_type == TokenType.SEMICOLON), None)
    if second is not None:
        raise _refused(text, second.start, "a second statement is not allowed")
    plain = _without_comments(text, tokens)
    tree = _tree(text, plain)
    _check_tokens(text, tokens, _alias_positions(tree))
    _check_nodes(text, tree)
    views: dict[str, str] = {}
    changes = list(_replacements(text, tree, published, views))
    query, replaced = _replace(plain, changes)
    return CheckedQuery(text, query, views, replaced, _columns(tree))


def _tokens(text: str) -> list[Token]:
    try:
        return sqlglot.tokenize(text, read="spark")
    except TokenError:
        raise Refusal(INVALID, f"{_at(text, len(text))}: a quotation mark or a comment is not closed") from None


def _tree(text: str, plain: str) -> exp.Expression:
    try:
        trees = sqlglot.parse(plain, read="spark")
    except ParseError as error:
        details = error.errors[0] if error.errors else {}
        near = str(details.get("highlight") or "")
        # sqlglot's positions are those of a name's end.
        column = max(1, int(details.get("col") or 1) - len(near) + 1)
        where, near = f"line {details.get('line') or 1}, column {column}", f" near {near!r}" if near else ""
        raise Refusal(INVALID, f"{where}: this cannot be read as SQL{near}") from None
    except SqlglotError:
        raise Refusal(INVALID, "line 1, column 1: this cannot be read as SQL") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query | exp.Values):
        raise _refused(text, 0, "only one SELECT can be run")
    return trees[0]


def _without_comments(text: str, tokens: Sequence[Token]) -> str:
    """Return the text with everything between tokens blanked, so that every parser reads it alike."""
    parts, done = [], 0
    for token in tokens:
        if token.start < done:  # a literal with its type, like 1.10BD, is several tokens in one place
            continue
        parts += [re.sub(r"[^\n]", " ", text[done : token.start]), text[token.start : token.end + 1]]
        done = token.end + 1
    return "".join(parts)


def _alias_positions(tree: exp.Expression) -> frozenset[int]:
    """Return the positions of derived tables' names with a column list, which looks like a call."""
    aliases = (alias for alias in tree.find_all(exp.TableAlias) if alias.args.get("columns") and alias.this)
    return frozenset(alias.this.meta.get("start", -1) for alias in aliases)


def _check_tokens(text: str, tokens: Sequence[Token], aliases: Collection[int]) -> None:
    for place, token in enumerate(tokens):
        following = tokens[place + 1] if place + 1 < len(tokens) else None
        if token.token_type in _NOT_ALLOWED_TOKENS:
            raise _refused(text, token.start, f"{_NOT_ALLOWED_TOKENS[token.token_type]} is not allowed")
        if following is None:
            continue
        if token.token_type == TokenType.USING and following.token_type != TokenType.L_PAREN:
            raise _refused(text, token.start, "USING takes columns in parentheses")
        if following.token_type == TokenType.L_PAREN and token.start not in aliases:
            _check_call(text, token, tokens[place - 1] if place else None)


def _check_call(text: str, token: Token, before: Token | None) -> None:
    """Refuse a token before a parenthesis unless it is an allowed function or a word of SQL."""
    name, is_quoted = token.text.lower(), token.token_type == TokenType.IDENTIFIER
    if token.token_type in _STRINGS or not (is_quoted or name[:1].isalpha() or name[:1] == "_"):
        return
    if not is_quoted and name in _WORDS | _TYPES_WITH_MEASURES:
        return
    if before is not None and before.token_type == TokenType.DOT:
        raise _refused(text, token.start, f"the function {token.text} is not allowed")
    if name not in FUNCTIONS:
        raise _refused(text, token.start, f"the function {token.text} is not allowed")


def _check_nodes(text: str, tree: exp.Expression) -> None:
    for node in tree.walk():
        if isinstance(node, _NOT_ALLOWED):
            raise _refused(text, _start(node), f"{node.key} is not allowed")
        if isinstance(node, exp.From | exp.Join) and not isinstance(node.this, _SOURCES):
            raise _refused(text, _start(node), "only published tables and subqueries can be read")
        if isinstance(node, exp.Lateral) and not (node.args.get("view") or isinstance(node.this, exp.Subquery)):
            raise _refused(text, _start(node), "table functions are not allowed")
        if isinstance(node, exp.Table):
            if not isinstance(node.this, exp.Identifier):
                raise _refused(text, _start(node), "table functions are not allowed")
            further = sorted(name for name, value in node.args.items() if value and name not in _OF_TABLE | {"catalog"})
            if further:
                raise _refused(text, _start(node), f"{further[0].replace('_', ' ')} of a table is not allowed")


def _replacements(
    text: str, tree: exp.Expression, published: Mapping[str, str], views: dict[str, str]
) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and new text of every published name; fill ``views``."""
    derived = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        if not table.db and not table.catalog and table.name.lower() in derived:
            continue
        name = published.get(f"{table.db}.{table.name}".lower()) if not table.catalog else None
        if name is None:
            raise _unknown(text, table, published)
        view = views.setdefault(name, f"{_TEMPORARY}{len(views)}")
        alias = "" if table.alias else f" AS {quote_identifier(table.name)}"
        yield (_first(table), table.this.meta["end"] + 1, quote_identifier(view) + alias)
    for column in tree.find_all(exp.Column):
        if column.args.get("db") and f"{column.db}.{column.table}".lower() in published:
            start, end = column.args["db"].meta["start"], column.args["table"].meta["end"] + 1
            yield (start, end, quote_identifier(column.table))


def _unknown(text: str, table: exp.Table, published: Mapping[str, str]) -> Refusal:
    written = ".".join(part.name for part in table.parts)
    own = [name for lower, name in published.items() if lower.endswith(f".{table.name.lower()}")]
    close = own or [published[name] for name in get_close_matches(written.lower(), published, 1)]
    hint = f"did you mean {close[0]}?" if close else "published names are listed by 'manage.py catalog'"
    return Refusal(UNKNOWN, f"{_at(text, _first(table))}: {written} is no published table or view", hint=hint)


def _replace(plain: str, changes: Sequence[tuple[int, int, str]]) -> tuple[str, tuple[tuple[int, int, int, int], ...]]:
    parts: list[str] = []
    replaced: list[tuple[int, int, int, int]] = []
    done = length = 0
    for start, end, new in sorted(set(changes)):
        parts += [plain[done:start], new]
        length += start - done
        replaced.append((length, len(new), start, end - start))
        length, done = length + len(new), end
    return "".join([*parts, plain[done:]]), tuple(replaced)


def _columns(tree: exp.Expression) -> frozenset[str] | None:
    """Return every name in the query; None if some columns are used without their names."""
    for node in tree.walk():
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            return None
        if isinstance(node, exp.Pivot) or (isinstance(node, exp.Join) and node.args.get("method") == "NATURAL"):
            return None
        if isinstance(node, exp.TableAlias) and node.args.get("columns"):
            return None
    return frozenset(node.name.lower() for node in tree.find_all(exp.Identifier))


# Positions, counted from 1.


def _at(text: str, offset: int) -> str:
    before = text[:offset]
    return f"line {before.count(chr(10)) + 1}, column {offset - (before.rfind(chr(10)) + 1) + 1}"


def position_in_text(text: str, offset: int, replaced: Sequence[Sequence[int]]) -> str:
    """Return in words where an offset of the query for Spark is in the text."""
    moved = 0
    for start, length, own_start, own_length in replaced:
        if offset < start:
            break
        if offset < start + length:
            return _at(text, own_start)
        moved = (own_start + own_length) - (start + length)
    return _at(text, min(len(text), offset + moved))


def _start(node: exp.Expression) -> int:
    return min((item.meta["start"] for item in node.find_all(exp.Identifier) if "start" in item.meta), default=0)


def _first(table: exp.Table) -> int:
    return min(part.meta["start"] for part in table.parts)


def _refused(text: str, offset: int, said: str) -> Refusal:
    return Refusal(REFUSED, f"{_at(text, offset)}: {said}")


# Lineage: the columns of the result that are computed from masked columns.


def masked_results(
    checked: CheckedQuery, columns: Mapping[str, Sequence[str]], masked: Mapping[str, Collection[str]]
) -> frozenset[int]:
    """Return the positions of the result's columns that read a masked column, however it is computed.

    ``columns`` and ``masked`` are column names by published name. Masked columns have no value in any case; the
    positions only prevent that a result is taken for NULL. Empty if sqlglot cannot resolve the query.
    """
    if not any(masked.values()):
        return frozenset()
    schema: dict[str, dict[str, dict[str, str]]] = {}
    for name in checked.tables:
        own_schema, _, own = name.partition(".")
        types = {quote_identifier(column): "string" for column in columns[name]}
        schema.setdefault(own_schema, {})[own] = types
    try:
        tree = qualify(
            sqlglot.parse_one(checked.text, read="spark"),
            schema=schema,
            dialect="spark",
            validate_qualify_columns=False,
        )
        scope = build_scope(tree)
        if scope is None:
            return frozenset()
        lower = {name.lower(): {column.lower() for column in found} for name, found in masked.items()}
        count = len(_selects(scope))
        return frozenset(place for place in range(count) if _reads_masked(scope, place, lower, frozenset()))
    except (SqlglotError, RecursionError, KeyError):
        return frozenset()


def _selects(scope: Scope) -> list[exp.Expression]:
    return list(scope.expression.selects)


def _reads_masked(
    scope: Scope, place: int, masked: Mapping[str, Collection[str]], seen: frozenset[tuple[int, int]]
) -> bool:
    if (id(scope), place) in seen:
        return False
    seen |= {(id(scope), place)}
    if scope.set_operation_scopes:
        return any(_reads_masked(inner, place, masked, seen) for inner in scope.set_operation_scopes)
    selects = _selects(scope)
    return place < len(selects) and _expression_reads(scope, selects[place], masked, seen)


def _expression_reads(
    scope: Scope, expression: exp.Expression, masked: Mapping[str, Collection[str]], seen: frozenset[tuple[int, int]]
) -> bool:
    for column in expression.find_all(exp.Column):
        source = _source_of(scope, column)
        if isinstance(source, exp.Table):
            if column.name.lower() in masked.get(f"{source.db}.{source.name}".lower(), ()):
                return True
        elif isinstance(source, Scope):
            names = [select.alias_or_name.lower() for select in _selects(source)]
            if column.name.lower() in names and _reads_masked(source, names.index(column.name.lower()), masked, seen):
                return True
    return False


def _source_of(scope: Scope, column: exp.Column) -> exp.Table | Scope | None:
    """Return the table or query that a column comes from, also of one inside of a scalar subquery."""
    inner = [each for each in scope.subquery_scopes if column.find_ancestor(exp.Query) is each.expression]
    for part in (*inner, scope):
        if column.table in part.sources:
            return part.sources[column.table]
    return None
