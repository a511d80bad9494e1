"""Functions that a model may call: arguments, type and nullability of the result.

A line is ``names(arguments) result nullability``. Arguments: ``s`` text, ``n`` number, ``i`` integer, ``d`` date or
timestamp, ``b`` boolean, ``x`` text or binary, ``a`` array, ``u`` a unit like DAY, ``*`` any; ``?`` marks optional
ones, ``+`` repeats the last. Results: a type, ``1`` (that of the first argument), ``common`` (of all), ``item`` of the
first argument, or the name of a rule. Nullability: ``=`` if an argument may be NULL, ``~`` if all may be NULL, ``!``
never, ``?`` always; ``1`` if the first argument may be NULL.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from metadata.domain.models import sql_types
from metadata.domain.models.sql_types import BIGINT, DOUBLE, STRING, SqlType, arithmetic, common_type
from metadata.domain.sql import words

_SCALAR = """
upper lower ucase lcase initcap soundex(s) string =
reverse(s) string =
trim btrim ltrim rtrim(s,s?) string =
repeat left right(s,i) string =
substring substr(s,i,i?) string =
substring_index(s,s,i) string =
split_part(s,s,i) string ?
lpad rpad(s,i,s?) string =
replace(s,s,s?) string =
translate(s,s,s) string =
overlay(s,s,i,i?) string =
concat(s+) string =
concat_ws(s,*+) string 1
regexp_replace(s,s,s,i?) string =
regexp_extract(s,s,i?) string =
regexp_substr(s,s) string ?
regexp_count(s,s) int =
md5 sha sha1(x) string =
sha2(x,i) string ?
surrogate_key(*+) string !
hex base64(*) string =
bin(i) string =
chr char(i) string =
format_string(s,*+) string ?
format_number(n,*) string ?
from_unixtime(i,s?) string ?
date_format(d,s) string ?
conv(s,i,i) string ?
get_json_object(s,s) string ?
parse_url(s,s,s?) string ?
dayname monthname(d) string =
to_char to_varchar(*,s) string ?
length char_length character_length len octet_length bit_length(x) int =
levenshtein(s,s,i?) int ?
instr(s,s) int =
locate position(s,s,i?) int =
ascii(s) int =
find_in_set(s,s) int =
year quarter month day dayofmonth dayofyear dayofweek weekday weekofyear(d) int =
hour minute second(d) int =
unix_date(d) int =
last_day(d) date =
add_months date_add date_sub(d,i) date =
date_from_unix_date(i) date =
trunc next_day(d,s) date ?
make_date(i,i,i) date ?
to_date(*,s?) date ?
date_trunc(s,d) timestamp ?
to_timestamp try_to_timestamp(*,s?) timestamp ?
from_utc_timestamp to_utc_timestamp(d,s) timestamp ?
timestamp_seconds timestamp_millis timestamp_micros(n) timestamp ?
make_timestamp(i,i,i,i,i,n,s?) timestamp ?
months_between(d,d,b?) double ?
unix_seconds unix_millis unix_micros(d) bigint =
unix_timestamp to_unix_timestamp(*,s?) bigint ?
timestampdiff(u,d,d) bigint =
timestampadd(u,i,d) timestamp =
xxhash64(*+) bigint !
hash(*+) int !
crc32(x) bigint =
width_bucket(n,n,n,i) bigint ?
startswith endswith contains(s,s) boolean =
regexp_like regexp rlike(s,s) boolean =
like ilike(s,s) boolean =
isnull isnotnull(*) boolean !
isnan(n) boolean !
sqrt cbrt exp degrees radians sin cos tan cot sign signum(n) double ?
ln log2 log10(n) double ?
log(n,n?) double ?
pow power hypot atan2(n,n) double =
nanvl(n,n) double =
abs negative(n) number =
round bround(n,i?) rounded ?
ceil ceiling floor(n) integral ?
mod(n,n) remainder ?
pmod(n,n) remainder ?
try_add(*,*) sum ?
try_subtract(*,*) difference ?
try_multiply(*,*) product ?
try_divide(*,*) quotient ?
coalesce greatest least(*+) common ~
nvl ifnull(*,*) common ~
nvl2(*,*,*) common_of_rest rest
if(b,*,*) common_of_rest rest
nullif(*,*) 1 ?
unhex(s) binary ?
unbase64(s) binary =
split(s,s,i?) strings =
array(*+) array !
sequence(*,*,*?) array_of_first =
array_distinct array_compact(a) 1 =
sort_array(a,b?) 1 =
array_sort(a) 1 =
array_union array_intersect array_except(a,a) 1 =
slice(a,i,i) 1 =
array_join(a,s,s?) string ?
array_contains(a,*) boolean ?
array_max array_min(a) item ?
element_at try_element_at(a,i) item ?
size cardinality array_size(a) int ?
json_array_length(s) int ?
"""
_AGGREGATE = """
count(*+) bigint !
count_if(b) bigint !
approx_count_distinct(*,n?) bigint !
sum try_sum(n) total ?
avg mean try_avg(n) average ?
min max(*) 1 ?
max_by min_by(*,*) 1 ?
stddev std stddev_samp stddev_pop variance var_samp var_pop skewness kurtosis(n) double ?
corr covar_pop covar_samp(n,n) double ?
median(n) double ?
percentile(n,n,i?) double ?
percentile_cont(n) double ?
bool_and bool_or every some any(b) boolean ?
collect_list collect_set array_agg(*) array !
listagg string_agg(s,s?) string ?
grouping(*) tinyint !
grouping_id(*+) bigint !
"""
_WINDOW = """
row_number rank dense_rank() int !
ntile(i) int !
percent_rank cume_dist() double !
lag lead(*,i?,*?) 1 ?
nth_value(*,i,b?) 1 ?
first_value last_value first last any_value(*,b?) 1 ?
"""
_GENERATORS = """
explode explode_outer(a) item ?
posexplode posexplode_outer(a) item ?
"""
# Values that depend on the order of rows, or on ties, without an order.
NEEDS_ORDER = words("first_value last_value first last any_value")
# Functions that give another result in every run, or that depend on the session or the distribution of rows.
CHANGING = words(
    """
    rand random randn uuid shuffle monotonically_increasing_id spark_partition_id input_file_name now current_date
    current_timestamp current_time current_timezone curdate localtimestamp current_user current_catalog
    current_database current_schema session_user user version mode percentile_approx approx_percentile randstr uniform
    """
)
_CASTS = {
    "bigint": BIGINT,
    "int": sql_types.INT,
    "smallint": SqlType("smallint"),
    "tinyint": SqlType("tinyint"),
    "double": DOUBLE,
    "float": SqlType("float"),
    "decimal": SqlType("decimal", 10, 0),
    "string": STRING,
    "boolean": sql_types.BOOLEAN,
    "date": sql_types.DATE,
    "timestamp": sql_types.TIMESTAMP,
    "binary": sql_types.BINARY,
}


class Value(NamedTuple):
    """Result of an expression.

    ``inputs`` are the columns that it is computed from. ``described`` is the metadata type of an input column that is
    passed on unchanged, empty for others. ``integer`` is the value of a literal.
    """

    type: SqlType
    nullable: bool
    inputs: tuple[tuple[str, str], ...] = ()
    described: str = ""
    integer: int | None = None


def inputs_of(values: Iterable[Value]) -> tuple[tuple[str, str], ...]:
    return tuple(dict.fromkeys(pair for value in values for pair in value.inputs))


class Function(NamedTuple):
    """Signature of a function."""

    arguments: tuple[str, ...]
    result: str
    nullability: str

    @property
    def least(self) -> int:
        return sum(1 for argument in self.arguments if "?" not in argument)

    @property
    def most(self) -> int | None:
        return None if self.arguments and "+" in self.arguments[-1] else len(self.arguments)

    def family(self, place: int) -> str:
        return self.arguments[min(place, len(self.arguments) - 1)][0]


def _signatures(text: str) -> dict[str, Function]:
    functions: dict[str, Function] = {}
    for line in text.strip().splitlines():
        names, _, rest = line.partition("(")
        arguments, _, result = rest.partition(") ")
        kind, nullability = result.split()
        signature = Function(tuple(arguments.split(",")) if arguments else (), kind, nullability)
        functions |= dict.fromkeys(names.split(), signature)
    return functions


SCALAR = _signatures(_SCALAR)
AGGREGATES = _signatures(_AGGREGATE)
WINDOWS = _signatures(_WINDOW)
GENERATORS = _signatures(_GENERATORS)
CASTS = _CASTS
_BY_UNIT = frozenset(("datediff", "date_diff", "dateadd", "date_part", "datepart", "extract"))
NAMES = frozenset({*SCALAR, *AGGREGATES, *WINDOWS, *GENERATORS, *CASTS, *CHANGING, *_BY_UNIT, "cast", "try_cast"})

_FAMILIES: dict[str, tuple[str, Callable[[SqlType], bool]]] = {
    "s": ("text", lambda own: own.item is None and not own.is_interval and own.name != "binary"),
    "n": ("a number", lambda own: own.is_numeric or own == STRING),
    "i": ("an integer", lambda own: own.is_integral or own == STRING),
    "d": ("a date or timestamp", lambda own: own.name in ("date", "timestamp", "string")),
    "b": ("a boolean", lambda own: own.name in ("boolean", "string")),
    "x": ("text or binary", lambda own: own.item is None and not own.is_interval),
    "a": ("an array", lambda own: own.item is not None),
}


def misfit(function: Function, types: Sequence[SqlType]) -> tuple[int, str] | None:
    """Return the place of the first argument that does not fit, and what it must be; place -1 if there are too few."""
    least, most = function.least, function.most
    if len(types) < least or (most is not None and len(types) > most):
        count = str(least) if most == least else f"at least {least}" if most is None else f"{least} to {most}"
        return -1, f"takes {count} argument{'' if count == '1' else 's'}, not {len(types)}"
    for place, own in enumerate(types):
        words, fits = _FAMILIES.get(function.family(place), ("", lambda own: True))
        if own != sql_types.NULL and not fits(own):
            return place, f"must be {words}, not {own}"
    return None


def result(function: Function, arguments: Sequence[Value]) -> tuple[SqlType | None, bool]:
    """Return type and nullability of a call; the type is None if those of the arguments do not fit together."""
    types = [argument.type for argument in arguments]
    rule = _RULES.get(function.result)
    own = rule(types, arguments) if rule else SqlType(function.result)
    return own, _is_nullable(function.nullability, [argument.nullable for argument in arguments])


def _is_nullable(rule: str, nullable: Sequence[bool]) -> bool:
    if rule == "rest":
        return any(nullable[1:])
    return {"=": any(nullable), "~": all(nullable), "!": False, "1": bool(nullable and nullable[0])}.get(rule, True)


def common_of(types: Sequence[SqlType]) -> SqlType | None:
    wide: SqlType | None = sql_types.NULL
    for own in types:
        wide = common_type(wide, own) if wide is not None else None
    return wide


def _total(types: Sequence[SqlType], _: Sequence[Value]) -> SqlType:
    own = types[0]
    if own.name == "decimal":
        return sql_types.bounded(own.precision + 10, own.scale)
    return BIGINT if own.is_integral else DOUBLE


def _average(types: Sequence[SqlType], _: Sequence[Value]) -> SqlType:
    own = types[0]
    return sql_types.bounded(own.precision + 4, own.scale + 4) if own.name == "decimal" else DOUBLE


def _rounded(types: Sequence[SqlType], arguments: Sequence[Value]) -> SqlType:
    own = types[0]
    if own.name != "decimal":
        return own if own.is_numeric else DOUBLE
    digits = arguments[1].integer if len(arguments) > 1 else 0
    if digits is None:
        digits = own.scale
    whole = own.precision - own.scale + 1
    if digits < 0:
        return SqlType("decimal", min(max(whole, 1 - digits), sql_types.MAX_PRECISION), 0)
    scale = min(own.scale, digits)
    return SqlType("decimal", min(whole + scale, sql_types.MAX_PRECISION), scale)


def _integral(types: Sequence[SqlType], _: Sequence[Value]) -> SqlType:
    own = types[0]
    return sql_types.bounded(own.precision - own.scale + 1, 0) if own.name == "decimal" else BIGINT


def _calculated(operator: str) -> Callable[[Sequence[SqlType], Sequence[Value]], SqlType | None]:
    return lambda _, arguments: calculated_type(operator, *arguments)


def calculated_type(operator: str, left: Value, right: Value) -> SqlType | None:
    """Return the type of a calculation; an integer literal next to a decimal has its own number of digits."""
    return arithmetic(operator, _operand(left, right), _operand(right, left))


def _operand(value: Value, other: Value) -> SqlType:
    if value.integer is not None and other.type.name == "decimal":
        return sql_types.decimal_of_digits(str(abs(value.integer)))
    return value.type


def _array(types: Sequence[SqlType], _: Sequence[Value]) -> SqlType | None:
    item = common_of(types)
    return sql_types.array_of(item) if item is not None else None


_RULES: dict[str, Callable[[Sequence[SqlType], Sequence[Value]], SqlType | None]] = {
    "1": lambda types, _: types[0],
    "number": lambda types, _: types[0] if types[0].is_numeric else DOUBLE,
    "common": lambda types, _: common_of(types),
    "common_of_rest": lambda types, _: common_of(types[1:]),
    "item": lambda types, _: types[0].item,
    "array": _array,
    "array_of_first": lambda types, _: sql_types.array_of(types[0]),
    "strings": lambda types, _: sql_types.array_of(STRING),
    "total": _total,
    "average": _average,
    "rounded": _rounded,
    "integral": _integral,
    "sum": _calculated("+"),
    "difference": _calculated("-"),
    "product": _calculated("*"),
    "quotient": _calculated("/"),
    "remainder": _calculated("%"),
}
