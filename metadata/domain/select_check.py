"""Allow-list check of SELECT statements: tokens, statements, sources and functions.

Pure, and shared by models and by queries of the SQL page. The tokens are checked, too, because the syntax tree loses
parts of the text. All problems begin with line and column.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from elevata.core.errors import MetadataError
from metadata.domain.sql import FUNCTIONS as SCALAR_FUNCTIONS
from metadata.domain.sql import missing_function, problem_of_length, words
from metadata.domain.text_formats import VARIABLE

MAX_LENGTH = 20_000


# No function that reads a file or a secret, calls Java, Python or a program, or reveals facts about the server.
FUNCTIONS = SCALAR_FUNCTIONS | words(
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
# Words before a parenthesis that are not functions unless they are quoted.
_WORDS = words(
    """
    all and any anti as between by case cross cube distinct else escape except exists filter for from full group
    having ilike in inner intersect interval is join lateral left like limit minus not offset on or over partition
    pivot regexp right rlike rollup select semi sets some then union unpivot using values when where with
    """
)
_TYPES_WITH_MEASURES = words("decimal numeric dec varchar char")
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


class SelectProblem(MetadataError):
    """Error for a text that is not an allowed SELECT; ``invalid`` if it cannot be read as SQL."""

    def __init__(self, message: str, *, invalid: bool = False) -> None:
        super().__init__("bad_select", message, "select")
        self.invalid = invalid


def problem_at(text: str, offset: int, message: str, *, invalid: bool = False) -> SelectProblem:
    return SelectProblem(f"{position(text, offset)}: {message}", invalid=invalid)


def position(text: str, offset: int) -> str:
    """Return in words the position of an offset, counted from 1."""
    before = text[:offset]
    return f"line {before.count(chr(10)) + 1}, column {offset - (before.rfind(chr(10)) + 1) + 1}"


@dataclass(frozen=True)
class Allowed:
    """Dialect and functions of a check; ``table_functions`` may stand where a table may."""

    dialect: str | type = "spark"
    functions: Collection[str] = FUNCTIONS
    table_functions: Collection[str] = ()


@dataclass(frozen=True)
class Select:
    """Checked SELECT: the text with blanks instead of comments, its tokens, its tree and the nodes of the tree."""

    plain: str
    tokens: Sequence[Token]
    tree: exp.Expr
    nodes: Sequence[exp.Expr]


def read_select(text: str, allowed: Allowed = Allowed()) -> Select:
    """Return the checked SELECT. Raise SelectProblem if it is not allowed."""
    if len(text) > MAX_LENGTH:
        raise SelectProblem(f"the query is longer than {MAX_LENGTH} characters")
    if "\x00" in text:
        raise problem_at(text, text.index("\x00"), "a NUL byte is not allowed")
    if VARIABLE in text:
        raise problem_at(text, text.index(VARIABLE), f"{VARIABLE} is not allowed: it would stand for a variable")
    try:
        tokens = _one_statement(text)
        plain = _without_comments(text, tokens)
        tree = _tree(text, plain, tokens, allowed.dialect)
        nodes = list(tree.walk())
        _check_tokens(text, tokens, _alias_positions(nodes), allowed)
        _check_nodes(text, nodes, allowed)
    except RecursionError:
        raise SelectProblem("the query is nested too deeply") from None
    return Select(plain, tokens, tree, nodes)


def _one_statement(text: str) -> list[Token]:
    """Return the tokens of a single SELECT, without the final semicolon."""
    tokens = _tokens(text)
    if not tokens:
        raise SelectProblem("line 1, column 1: the query is empty", invalid=True)
    if tokens[-1].token_type == TokenType.SEMICOLON:
        tokens = tokens[:-1]
    if not tokens or tokens[0].token_type not in _BEGINS:
        raise problem_at(text, tokens[0].start if tokens else 0, "only one SELECT can be run")
    second = next((token for token in tokens if token.token_type == TokenType.SEMICOLON), None)
    if second is not None:
        raise problem_at(text, second.start, "a second statement is not allowed")
    return tokens


def _tokens(text: str) -> list[Token]:
    try:
        return sqlglot.tokenize(text, read="spark")
    except TokenError:
        raise problem_at(text, len(text), "a quotation mark or a comment is not closed", invalid=True) from None


def _tree(text: str, plain: str, tokens: Sequence[Token], dialect: str | type) -> exp.Expr:
    reader = Dialect.get_or_raise(dialect)
    try:
        # Without comments, the tokens are those of the plain text.
        trees = reader.parser().parse(list(tokens) if plain == text else reader.tokenize(plain), plain)
    except ParseError as error:
        details = error.errors[0] if error.errors else {}
        near = str(details.get("highlight") or "")
        # The positions of sqlglot are those of the end of a name.
        column = max(1, int(details.get("col") or 1) - len(near) + 1)
        where, near = f"line {details.get('line') or 1}, column {column}", f" near {near!r}" if near else ""
        raise SelectProblem(f"{where}: this cannot be read as SQL{near}", invalid=True) from None
    except SqlglotError:
        raise SelectProblem("line 1, column 1: this cannot be read as SQL", invalid=True) from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query | exp.Values):
        raise problem_at(text, 0, "only one SELECT can be run")
    return trees[0]


def _without_comments(text: str, tokens: Sequence[Token]) -> str:
    """Return the text with blanks between tokens, so that all parsers read it in the same way."""
    parts, done = [], 0
    for token in tokens:
        if token.start < done:  # a literal with its type, like 1.10BD, is several tokens in one place
            continue
        parts += [re.sub(r"[^\n]", " ", text[done : token.start]), text[token.start : token.end + 1]]
        done = token.end + 1
    return "".join(parts)


def _alias_positions(nodes: Sequence[exp.Expr]) -> frozenset[int]:
    """Return the positions of names of derived tables with a column list, which looks like a call."""
    aliases = (node for node in nodes if isinstance(node, exp.TableAlias) and node.args.get("columns") and node.this)
    return frozenset(alias.this.meta.get("start", -1) for alias in aliases)


def _check_tokens(text: str, tokens: Sequence[Token], aliases: Collection[int], allowed: Allowed) -> None:
    for place, token in enumerate(tokens):
        following = tokens[place + 1] if place + 1 < len(tokens) else None
        if token.token_type in _NOT_ALLOWED_TOKENS:
            raise problem_at(text, token.start, f"{_NOT_ALLOWED_TOKENS[token.token_type]} is not allowed")
        if following is None:
            continue
        if token.token_type == TokenType.USING and following.token_type != TokenType.L_PAREN:
            raise problem_at(text, token.start, "USING takes columns in parentheses")
        if following.token_type == TokenType.L_PAREN and token.start not in aliases:
            _check_call(text, token, tokens[place - 1] if place else None, allowed)


def _check_call(text: str, token: Token, before: Token | None, allowed: Allowed) -> None:
    """Raise SelectProblem unless a token before a parenthesis is an allowed function or a word of SQL."""
    name, is_quoted = token.text.lower(), token.token_type == TokenType.IDENTIFIER
    if token.token_type in _STRINGS or not (is_quoted or name[:1].isalpha() or name[:1] == "_"):
        return
    # sqlglot has one token for two words.
    if not is_quoted and (name in _WORDS | _TYPES_WITH_MEASURES or name == "grouping sets"):
        return
    if before is not None and before.token_type == TokenType.DOT:
        raise problem_at(text, token.start, f"the function {token.text} is not allowed")
    if name not in allowed.functions and name not in allowed.table_functions:
        missing = missing_function(token.text, allowed.functions)
        raise problem_at(text, token.start, missing or f"the function {token.text} is not allowed")


def _check_nodes(text: str, nodes: Sequence[exp.Expr], allowed: Allowed) -> None:
    for node in nodes:
        if isinstance(node, _NOT_ALLOWED):
            raise problem_at(text, start_of(node), f"{node.key} is not allowed")
        if problem := problem_of_length(node):
            raise problem_at(text, start_of(node), problem)
        if isinstance(node, exp.From | exp.Join) and not isinstance(node.this, _SOURCES):
            raise problem_at(text, start_of(node), "only published tables and subqueries can be read")
        if isinstance(node, exp.Lateral) and not (node.args.get("view") or isinstance(node.this, exp.Subquery)):
            raise problem_at(text, start_of(node), "table functions are not allowed")
        if isinstance(node, exp.Table):
            if not isinstance(node.this, exp.Identifier) and node.this.name.lower() not in allowed.table_functions:
                raise problem_at(text, start_of(node), "table functions are not allowed")
            further = sorted(name for name, value in node.args.items() if value and name not in _OF_TABLE | {"catalog"})
            if further:
                raise problem_at(text, start_of(node), f"{further[0].replace('_', ' ')} of a table is not allowed")


def start_of(node: exp.Expr) -> int:
    """Return the offset of the first name in a node, 0 if it has none."""
    return min((item.meta["start"] for item in node.find_all(exp.Identifier) if "start" in item.meta), default=0)
