"""Expressions and filters in metadata: allow-list check, renames, placeholders and quoting.

They become part of statements that run in the warehouse. Only columns, literals, operators and deterministic
functions are allowed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from elevata.core.errors import MetadataError
from metadata.domain.text_formats import VARIABLE

PLACEHOLDERS = ("load_timestamp", "load_run_id")
MAX_LENGTH = 10_000

_MARKER = "_placeholder__"
# A placeholder ends at the first braces after it; further opening braces begin another one, so that no text is searched
# twice. Blanks around the name are taken off by ``placeholder_name``.
PLACEHOLDER = re.compile(r"\{\{((?:(?!\}\}|\{\{).)*+)\}\}", re.DOTALL)


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


# Functions of Spark, unknown to sqlglot, whose names are like those of others.
_NOT_MISTYPED = words(
    """
    array_repeat btrim expm1 log1p make_time positive time_from_micros time_from_millis time_from_seconds
    to_timestamp_ltz to_timestamp_ntz try_to_date try_to_time
    """
)
_SHORTEST_MISTYPED = 3
# Deterministic scalar functions: none that read a clock, random numbers or files, call Java, or aggregate.
FUNCTIONS = words(
    """
    abs add_months ascii base64 bin bround cast ceil ceiling char char_length character_length chr
    coalesce concat concat_ws contains conv date date_add date_diff date_format date_from_unix_date
    date_sub date_trunc datediff day dayofmonth dayofweek dayofyear degrees div endswith exp floor
    format_number format_string from_unixtime from_utc_timestamp get_json_object greatest hash hex hour
    if ifnull initcap instr isnan isnotnull isnull last_day lcase least left length levenshtein ln
    locate log log10 log2 lower lpad ltrim make_date make_timestamp md5 minute mod month months_between
    nanvl negative next_day nullif nvl nvl2 octet_length overlay parse_url pmod position pow power
    quarter radians regexp_extract regexp_like regexp_replace repeat replace reverse right round rpad
    rtrim second sha sha1 sha2 sign signum soundex split_part sqrt startswith substr substring
    substring_index timestamp_micros timestamp_millis timestamp_seconds to_date to_timestamp
    to_utc_timestamp to_unix_timestamp translate trim trunc try_add try_cast try_divide try_multiply
    try_subtract try_to_number try_to_timestamp ucase unbase64 unhex unix_date unix_micros unix_millis
    unix_seconds unix_timestamp upper weekday weekofyear xxhash64 year bigint binary boolean decimal
    double float int smallint string timestamp tinyint
    """
)
# Functions that Spark takes without parentheses, and words that its parser reserves for them. Other names that begin
# like these are columns.
_CLOCK = words(
    """
    current_date current_time current_timestamp current_user current_path session_user localtime localtimestamp
    """
)
# Texts that Spark interprets as the current time if a date or timestamp is expected, with or without a zone.
_MOMENT = re.compile(r"\s*(?i:now|today|tomorrow|yesterday)\s*+([A-Z]{1,3}|(UTC|GMT)?[+-]\d\S*|\w+/\S+)?\s*")
# A timestamp without a date is one of the current day.
_TIME_OF_DAY = re.compile(r"\s*T?\d{1,2}:.*")
# Words before a parenthesis that are no functions.
_WORDS = words("and or not in is like rlike ilike between when then else case as from for any all some")
_TYPES_WITH_MEASURES = words("decimal numeric dec varchar char")

# Functions whose second argument is a length, of repetitions or of the whole text, and those whose first is a format.
_REPEATS, _PADS = ("repeat",), ("pad", "lpad", "rpad", "format_number")
_FORMATS = ("format", "format_string", "printf")
MAX_TEXT = 1_000_000
_WIDE_FORMAT = re.compile(rf"%[^%a-zA-Z]*\d{{{len(str(MAX_TEXT))},}}")

_TEXTS = (TokenType.STRING, TokenType.RAW_STRING)
# Lambdas, named arguments, parameter markers and paths into JSON.
_NOT_ALLOWED = (
    TokenType.ARROW,
    TokenType.DARROW,
    TokenType.FARROW,
    TokenType.PLACEHOLDER,
    TokenType.COLON,
)
_ALLOWED = (
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.Paren,
    exp.Binary,
    exp.Unary,
    exp.In,
    exp.Between,
    exp.Cast,
    exp.DataType,
    exp.DataTypeParam,
    exp.Interval,
    exp.Var,
    exp.Tuple,
    exp.Func,
)
_FORBIDDEN = (exp.Query, exp.SubqueryPredicate, exp.AggFunc, exp.Dot, exp.Alias, exp.Lambda, exp.PropertyEQ)


class ExpressionProblem(MetadataError):
    """Error for an expression or filter that is not allowed."""

    def __init__(self, message: str, field: str = "expression") -> None:
        super().__init__("bad_expression", message, field)


def quote_identifier(name: str) -> str:
    """Return a name quoted for Spark SQL; any character is allowed."""
    return "`" + name.replace("`", "``") + "`"


def quote_text(text: str) -> str:
    """Return a text as a literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quote_standard_identifier(name: str) -> str:
    """Return a name quoted as in standard SQL, for PostgreSQL, DuckDB and others; any character is allowed."""
    return '"' + name.replace('"', '""') + '"'


def quote_standard_text(text: str) -> str:
    """Return a text as a literal of standard SQL."""
    return "'" + text.replace("'", "''") + "'"


def placeholder_name(match: re.Match[str]) -> str:
    """Return the name in a match of ``PLACEHOLDER``."""
    return match[1].strip()


def bind_placeholders(text: str, values: Mapping[str, str]) -> str:
    """Replace ``{{ load_timestamp }}`` and ``{{ load_run_id }}`` by SQL."""

    def bound(match: re.Match[str]) -> str:
        name = placeholder_name(match)
        if name not in values:
            raise ExpressionProblem(f"{match[0]} is not known; known are {_known_placeholders()}")
        return values[name]

    return PLACEHOLDER.sub(bound, text)


def check_expression(text: str, *, field: str = "expression") -> tuple[str, ...]:
    """Return the names of the columns that ``text`` reads, in order. Raise ExpressionProblem if it is not allowed.

    ``field`` is the field's name in the error: expression or filter.
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionProblem(f"is longer than {MAX_LENGTH} characters", field)
    if VARIABLE in text:
        raise ExpressionProblem(f"holds {VARIABLE}, which would stand for a variable of the worker", field)
    if _MARKER in text:
        raise ExpressionProblem(f"holds {_MARKER}, which is reserved", field)
    try:
        return _check(text, field)
    except RecursionError:
        raise ExpressionProblem("is nested too deeply", field) from None


def rename_in_expression(text: str, old: str, new: str) -> str:
    """Return ``text`` with the column ``old`` renamed to ``new``; the rest of the text is unchanged.

    Raises ExpressionProblem if the rename is not safe.
    """
    used = check_expression(text)
    if old.lower() not in {name.lower() for name in used}:
        return text
    # Placeholders become names of the same length, so that positions hold.
    tokens = sqlglot.tokenize(PLACEHOLDER.sub(lambda match: "_" * len(match[0]), text), read="spark")
    renamed, done = [], 0
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        called = following is not None and following.token_type == TokenType.L_PAREN
        is_text = token.token_type in (TokenType.STRING, TokenType.NUMBER)
        if token.text.lower() == old.lower() and not called and not is_text:
            renamed += [text[done : token.start], quote_identifier(new)]
            done = token.end + 1
    result = "".join([*renamed, text[done:]])
    expected = [new if name.lower() == old.lower() else name for name in used]
    try:
        as_meant = sorted(check_expression(result)) == sorted(expected)
    except ExpressionProblem:
        as_meant = False
    if not as_meant:
        raise ExpressionProblem(f"uses {old!r} in a way that cannot be renamed; change the expression first")
    return result


def is_same_sql(first: str, second: str) -> bool:
    """Return True if two texts differ at most in white space, comments and the quotes of names that need none."""
    return first == second or _plain_tokens(first) == _plain_tokens(second)


def _plain_tokens(text: str) -> object:
    try:
        tokens = sqlglot.tokenize(text, read="spark")
    except SqlglotError:
        return text
    kinds = {TokenType.IDENTIFIER: TokenType.VAR}
    return [(kinds.get(each.token_type, each.token_type), each.text) for each in tokens]


@lru_cache(maxsize=4096)
def columns_in(text: str) -> frozenset[str]:
    """Return the names of the columns, in lower case, in an expression or filter that was checked before."""
    tree = sqlglot.parse_one(PLACEHOLDER.sub("NULL", text), read="spark")
    return frozenset(node.name.lower() for node in tree.find_all(exp.Column))


@lru_cache(maxsize=4096)
def conditions_in(text: str) -> tuple[frozenset[str], ...]:
    """Return the columns of each condition that AND combines in an accepted text, in lower case."""
    tree = sqlglot.parse_one(PLACEHOLDER.sub("NULL", text), read="spark")
    return tuple(frozenset(column.name.lower() for column in part.find_all(exp.Column)) for part in conjuncts(tree))


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """Return the conditions that AND combines, without parentheses around them."""
    pending = [node] if node is not None else []
    parts: list[exp.Expr] = []
    while pending:
        part = pending.pop().unnest()
        if isinstance(part, exp.And):
            pending += [part.expression, part.this]
        else:
            parts.append(part)
    return parts


def put_columns(text: str, sql_of: Mapping[str, str]) -> str:
    """Return ``text`` with columns replaced by the SQL in ``sql_of`` (by lower-case name), in parentheses.

    The rest of the text is unchanged, because sqlglot and Spark interpret some literals differently.
    """
    # Placeholders become names of the same length, so that positions hold.
    tree = sqlglot.parse_one(PLACEHOLDER.sub(lambda match: "_" * len(match[0]), text), read="spark")
    columns = [node for node in tree.find_all(exp.Column) if node.name.lower() in sql_of]
    for node in sorted(columns, key=lambda node: node.this.meta["start"], reverse=True):
        start, end = node.this.meta["start"], node.this.meta["end"] + 1
        text = f"{text[:start]}({sql_of[node.name.lower()]}){text[end:]}"
    return text


def _check(text: str, field: str) -> tuple[str, ...]:
    markers = {name: f"__{name}{_MARKER}" for name in PLACEHOLDERS}
    try:
        bound = bind_placeholders(text, markers)
        tokens = sqlglot.tokenize(bound, read="spark")
        _check_tokens(tokens, field)
        parsed = sqlglot.parse(bound, read="spark")
    except ExpressionProblem as problem:
        problem.field = field
        raise
    except SqlglotError as error:
        raise ExpressionProblem(f"cannot be read as SQL: {_first_line(error)}", field) from None
    if len(parsed) != 1 or parsed[0] is None:
        raise ExpressionProblem("must be one SQL expression", field)
    return _check_tree(parsed[0], set(markers.values()), field)


def _first_line(error: SqlglotError) -> str:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()
    incomplete = re.match(r"Required keyword:.*?(Line \d+, Col: \d+)", plain)
    if incomplete:
        return f"something is missing, {incomplete[1]}"
    bracket = re.match(r"Expecting \)\.? (Line \d+, Col: \d+)", plain)
    if bracket:
        return f"a closing bracket is missing, {bracket[1]}"
    return plain.splitlines()[0].rstrip(".") if plain else "unknown"


def _known_placeholders() -> str:
    return " and ".join(f"{{{{ {name} }}}}" for name in PLACEHOLDERS)


def missing_function(name: str, known: Iterable[str]) -> str:
    """Return the message for a known function's name with a typing error; else an empty text.

    Other names may be functions of Spark that are not allowed.
    """
    if name.upper() in Spark.Parser.FUNCTIONS or name.lower() in _NOT_MISTYPED or len(name) < _SHORTEST_MISTYPED:
        return ""
    alike = [item for item in sorted(known) if abs(len(item) - len(name)) <= 1]
    close = get_close_matches(name.lower(), alike, 1, cutoff=0.75)
    return f"there is no function {name}; did you mean {close[0]}?" if close else ""


def _check_tokens(tokens: list[Token], field: str) -> None:
    """Check tokens that are not in the parsed tree: comments, semicolons and functions as written."""
    if not tokens:
        raise ExpressionProblem("is empty", field)
    for index, token in enumerate(tokens):
        if token.comments:
            raise ExpressionProblem("holds a comment; say it in the description", field)
        if token.token_type == TokenType.SEMICOLON:
            raise ExpressionProblem("holds a semicolon; it must be one expression", field)
        if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER) and _MARKER in token.text:
            raise ExpressionProblem("has a placeholder inside quotes; it stands for a whole value", field)
        if token.token_type in _NOT_ALLOWED:
            raise ExpressionProblem(f"{token.text} is not allowed", field)
        clock = clock_at(tokens, index)
        if clock:
            _refuse_clock(clock, field)
        opens = index + 1 < len(tokens) and tokens[index + 1].token_type == TokenType.L_PAREN
        if opens and (token.text[:1].isalpha() or token.text[:1] == "_" or token.token_type == TokenType.IDENTIFIER):
            name = token.text.lower()
            if token.token_type == TokenType.IDENTIFIER or name not in FUNCTIONS | _WORDS | _TYPES_WITH_MEASURES:
                missing = missing_function(token.text, FUNCTIONS)
                raise ExpressionProblem(missing or f"function {token.text} is not allowed", field)


def clock_at(tokens: Sequence[Token], index: int) -> str:
    """Return the text of a token that Spark interprets as the current time; empty for others."""
    token = tokens[index]
    follows_table = index > 0 and tokens[index - 1].token_type == TokenType.DOT
    if token.text.lower() in _CLOCK and token.token_type not in (*_TEXTS, TokenType.IDENTIFIER) and not follows_table:
        return token.text
    if token.token_type in _TEXTS and _MOMENT.fullmatch(token.text):
        return f"'{token.text}'"
    if token.text.lower() == "unix_timestamp" and [item.text for item in tokens[index + 1 : index + 3]] == ["(", ")"]:
        return "unix_timestamp()"
    return ""


def clock_message(text: str) -> str:
    return f"{text} is not allowed: it differs from run to run; {{{{ load_timestamp }}}} does not"


def problem_of_length(node: exp.Expr) -> str:
    """Return why a function that makes a text of a given length is refused; empty for anything else.

    A length or format is constant or depends on a column, and nested repetitions make at most MAX_TEXT characters of
    one: a longer text takes the memory of all that the runner does at that time.
    """
    name, given = _text_function(node)
    if given is None or given.find(exp.Column):
        return ""
    is_literal = isinstance(given, exp.Literal)
    if name in _FORMATS:
        if not (is_literal and given.is_string):
            return f"the format in {name} must be a text, or depend on a column"
        is_longer = _WIDE_FORMAT.search(given.name) is not None
    elif not is_literal or given.is_string or not given.name.isdigit():
        return f"the length in {name} must be a whole number, or depend on a column"
    else:
        is_longer = _characters(node) > MAX_TEXT
    return f"{name} makes a text of more than {MAX_TEXT} characters" if is_longer else ""


def _text_function(node: exp.Expr) -> tuple[str, exp.Expr | None]:
    """Return the name of a function that makes a text, and its length or format; None for other nodes.

    The functions of models are parsed with their names as written, others as sqlglot's own nodes.
    """
    arguments: Sequence[exp.Expr]
    if isinstance(node, exp.Anonymous):
        name, arguments = node.name.lower(), node.expressions
    elif isinstance(node, exp.Repeat | exp.Pad | exp.Format):
        name, arguments = node.key, (node.this, node.args.get("times") or node.expression)
    else:
        return "", None
    place = 0 if name in _FORMATS else 1 if name in (*_REPEATS, *_PADS) else len(arguments)
    return name, arguments[place] if place < len(arguments) else None


def _characters(node: exp.Expr) -> int:
    """Return how many characters the functions with a constant length make of one character."""
    name, given = _text_function(node)
    length = int(given.name) if isinstance(given, exp.Literal) and given.name.isdigit() else 1
    if given is not None and name in _PADS:
        return length
    return length * max(map(_characters, node.iter_expressions()), default=1)


def _refuse_clock(text: str, field: str) -> None:
    raise ExpressionProblem(clock_message(text), field)


def _check_tree(root: exp.Expr, markers: set[str], field: str) -> tuple[str, ...]:
    columns: list[str] = []
    for node in root.walk(bfs=False):
        if isinstance(node, _FORBIDDEN) or not isinstance(node, _ALLOWED):
            raise ExpressionProblem(f"{_called(node)} is not allowed", field)
        if problem := problem_of_length(node):
            raise ExpressionProblem(problem, field)
        if isinstance(node, exp.Cast) and node.this.is_string and _TIME_OF_DAY.fullmatch(node.this.name):
            _refuse_clock(f"'{node.this.name}' without a date", field)
        if isinstance(node, exp.Column):
            if node.table or not isinstance(node.this, exp.Identifier):
                raise ExpressionProblem(
                    f"{node.sql('spark')}: a column is named without its table, and * is not allowed", field
                )
            if node.name not in markers and node.name not in columns:
                columns.append(node.name)
    return tuple(columns)


def _called(node: exp.Expr) -> str:
    if isinstance(node, exp.Query | exp.SubqueryPredicate):
        return "a subquery"
    if isinstance(node, exp.AggFunc):
        return f"aggregate {node.key}"
    if isinstance(node, exp.Star):
        return "*"
    return node.key
