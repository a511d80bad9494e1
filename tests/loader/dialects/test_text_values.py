"""Values of texts: the expressions of executed dialects against the product's reader of values."""

import random
import re
from datetime import UTC, datetime, timedelta

import pytest
import sqlglot

from loader.dialects.catalog import DIALECTS
from loader.dialects.refusals import NotRendered
from loader.domain.reference.values import DoesNotFit, typed
from metadata.domain.sources.value_formats import STANDARD, ValueFormats
from metadata.domain.text_formats import BLANKS
from metadata.domain.types import TIMESTAMP, DataType, parse
from tests.loader.dialects.engines import ENGINES, connection_to

VARIANTS = 2000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NUMBERS = ["0", "-0", "+7", "007", "450.0", "450.", ".5", "-.50", "1.005", "1.0050", "1e2", "1.5E-3", "99999999.99",
           "100000000", "2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775807",
           "9223372036854775808", "-9223372036854775808", "123456789012345678901234567890", "1_000", "1,5", "0x10",
           "1d", "1f", "1e", "e1", ".", "+", "-", "", "--1", "1-", "1 2", "١", "½", "NaN", "nan", "-nan", "inf",
           "-Infinity", "+INF", "infinit", "1e308", "1.7976931348623157e308", "-1e309", "1e400", "5e-324", "1e-400",
           "0.1", "0.30000000000000004", "9007199254740993", "1e00001", "1e9999", "2.2250738585072011e-308",
           "0" * 60 + "1", "1." + "0" * 60, "8.5431", "-0.4619"]  # fmt: skip
WORDS = ["true", "TRUE", "tRuE", "t", "yes", "Y", "1", "false", "F", "no", "N", "0", "on", "off", "2", "10", "truth",
         "ja", "JA", "Nein", "WAHR", "ÄHM", "ähm", "a.b", "axb"]  # fmt: skip
DATES = ["2024-02-29", "2023-02-29", "1900-02-29", "2000-02-29", "0000-01-01", "0001-01-01", "9999-12-31",
         "10000-01-01", "2024-1-1", "2024-13-01", "2024-04-31", "2024-00-10", "2024-01-00", "20240101", "2024",
         "2024-01-01T00:00", "29.02.2024", "30.02.2024", "31.12.1999", "1.2.2024", "31-12-1999"]  # fmt: skip
CLOCKS = ["", "T10:00", " 10:00", " 10:00:30", "T10:00:30.5", "T23:59:59.999999", "T23:59:59.9999990",
          "T10:00:30.1234567", "T24:00", "T10:60", "T9:00", "T10:00:60", " 10:00:",
          "T10:00.5", " 10:00:30."]  # fmt: skip
ZONES = ["", "Z", " Z", "UTC", " UTC", "+01", "+01:00", "+0530", " -08:00", "-0330", "+15:59",
         "+16:00", "+18:30", "+1", "z", "+01:60", "+"]  # fmt: skip
STAMPS = ["31.12.1999 23:05", "31.12.1999 23:05:01", "31.12.1999 24:05", "31.02.1999 23:05", "31.12.1999\u00a023:05",
          "1999/12/31 23:05:01,5", "1999/12/31 23:05:01,1234560", "1999/12/31 23:05:01,12345678901"]  # fmt: skip
CASES = {
    "integer": NUMBERS,
    "bigint": NUMBERS,
    "decimal(10,2)": NUMBERS,
    "decimal(38,0)": NUMBERS,
    "decimal(4,4)": NUMBERS,
    "float": NUMBERS,
    "boolean": WORDS,
    "date": DATES,
    "timestamp": [day + clock + zone for day in ("2024-02-29", "0001-01-01", "9999-12-31") for clock in CLOCKS
                  for zone in ZONES] + DATES,
    "time": [clock.strip("T ") for clock in CLOCKS] + ["9:00", "23:59:59.1234560000", "10:00:00.1234567"],
    "uuid": ["00000000-0000-0000-0000-00000000000A", "00000000-0000-0000-0000-00000000000", "{}", "g" * 36],
    "binary": ["", "0a", "0A", "0", "0g", "0a 0b", "ff" * 20],
    "string(3)": ["", "abc", "abcd", "äöü", "🛫🛫🛫", "🛫🛫🛫🛫", " a ", "a\tb"],
}  # fmt: skip
DECLARED = {
    "German numbers": ({"decimal_separator": ",", "thousands_separator": "."}, ["float", "decimal(10,2)", "integer"],
                       ["1.234,5", "1.234", "1234,5", "1,5", "1.23,4", ",5", "5,", "1.234.567", "NaN", "1,2,3", ""]),
    "decimal commas": ({"decimal_separator": ","}, ["float", "decimal(10,2)"],
                       ["1,5", ",5", "5,", "1.5", "1234,5", "-,25", "1,5e3", "Infinity", ",", ""]),
    "numbers with blanks": ({"thousands_separator": " "}, ["bigint", "decimal(10,2)"],
                            ["1 234", "1\u00a0234", "1\u202f234.5", "12 34", "1234", "1,234"]),
    "words": ({"true_words": "ja, ähm", "false_words": "nein, a.b"}, ["boolean"], WORDS),
    "German dates": ({"date_format": "%d.%m.%Y"}, ["date"], DATES),
    "German times": ({"timestamp_format": "%d.%m.%Y %H:%M"}, ["timestamp"], STAMPS + DATES),
    "times with fractions": ({"timestamp_format": "%Y/%m/%d %H:%M:%S,%f"}, ["timestamp"], STAMPS),
}  # fmt: skip
# Types whose texts have no rule in a dialect.
_WITHOUT_EXPRESSIONS = {"float", "timestamp", "time", "uuid", "binary", "string(3)"}
NOT_READ = {
    "bigquery": {"float"},
    "snowflake": {"float", "timestamp"},
    "mssql": _WITHOUT_EXPRESSIONS,
    "fabric": _WITHOUT_EXPRESSIONS,
}


def expected_value(text: str, data_type: DataType, formats: ValueFormats) -> tuple[bool, object]:
    """Return True and the value if a load of the product reads the text, otherwise False and None."""
    read = formats.reader(data_type.name)
    standard = text if read is None else read(text.strip(BLANKS))
    try:
        if standard is None:
            raise DoesNotFit(text)
        value = typed(standard, data_type)
    except DoesNotFit:
        return False, None
    return True, str(value) if isinstance(value, str) else value


def equal_values(left: object, right: object) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return repr(left) == repr(right)
    return left == right


def values_read_by(engine: str, texts: list[str], data_type: DataType, formats: ValueFormats) -> list[object]:
    connection, dialect = connection_to(engine), DIALECTS[engine]
    connection.run(dialect.create_schema("texts"))
    connection.run("DROP TABLE IF EXISTS texts.r")
    connection.run(dialect.create_table("texts.r", [("place", "integer"), ("v", "string")]))
    connection.insert("texts.r", ["place", "v"], [[place, text] for place, text in enumerate(texts)])
    value = dialect.text_value("v", data_type, formats)
    if data_type.name == TIMESTAMP:
        value = dialect.microseconds(f"({value})")
    rows = dict(connection.rows(f"SELECT place, {value} FROM texts.r"))
    values = [rows[place] for place in range(len(texts))]
    if data_type.name == TIMESTAMP:
        return [None if value is None else EPOCH + timedelta(microseconds=value) for value in values]
    return [bytes(value) if isinstance(value, memoryview) else value for value in values]


def is_narrower(text: str, data_type: DataType) -> bool:
    """Return True for a text that rendered loads refuse although a load of the product reads it (``text_patterns``)."""
    bare = text.strip(BLANKS)
    if data_type.name in ("integer", "bigint", "decimal"):
        return "e" in bare.lower()
    if data_type.name == "float":
        exponent = re.search(r"[eE]-(\d+)$", bare)
        return exponent is not None and int(exponent[1]) > 300  # PostgreSQL refuses what it would round to 0.
    return data_type.name == TIMESTAMP and bool(re.search(r"[+-](1[6-9]|[2-9]\d)(:?\d\d)?$", bare[10:]))


def mutate(source: random.Random, text: str) -> str:
    """Return the text with a character replaced, removed or added, or with blanks around it."""
    place = source.randrange(len(text) + 1)
    way = source.randrange(5)
    if way == 0:
        return source.choice(BLANKS) + text + source.choice(BLANKS)
    if way == 1:
        return text
    added = source.choice("0123456789.,-+eE: TZ\n\u00a0äx") if way in (2, 3) else ""
    return text[:place] + added + text[place + (way != 3) :]


def differences(engine: str, known: list[str], type_text: str, formats: ValueFormats) -> list[tuple]:
    """Return texts with another value than in the product, among known ones and random variants of them."""
    source, data_type = random.Random(f"{engine} {type_text}"), parse(type_text)
    texts = [*known, *(mutate(source, source.choice(known)) for _ in range(VARIANTS))]
    different = []
    for text, value in zip(texts, values_read_by(engine, texts, data_type, formats), strict=True):
        fits, expected = expected_value(text, data_type, formats)
        if value is None and fits and is_narrower(text, data_type):
            continue
        if (value is not None) != fits or not equal_values(value, expected):
            different.append((text, value, expected))
    return different


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("type_text", CASES)
def test_texts_have_the_values_of_the_product(engine, type_text):
    assert differences(engine, CASES[type_text], type_text, STANDARD)[:5] == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", DECLARED)
def test_texts_in_declared_formats_have_the_values_of_the_product(engine, name):
    options, types, known = DECLARED[name]
    for type_text in types:
        assert differences(engine, known, type_text, ValueFormats.of(options))[:5] == []


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("type_text", [*CASES, "json"])
def test_values_of_texts_parse_or_are_not_rendered(name, type_text):
    dialect = DIALECTS[name]
    refused = {"json"} | NOT_READ.get(name, set())
    if type_text in refused:
        with pytest.raises(NotRendered):
            dialect.text_value("v", parse(type_text))
        return
    sqlglot.parse(f"SELECT {dialect.text_value('v', parse(type_text))} FROM t", read=dialect.parser)


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize(
    ("options", "type_text", "message"),
    [
        ({"date_format": "%-d.%m.%Y"}, "date", "'%-d.%m.%Y' has %-d"),
        ({"date_format": "%d %b %Y"}, "date", "'%d %b %Y' has %b"),
        ({"timestamp_format": "%d.%m.%Y %I:%M %p"}, "timestamp", "has %I"),
        ({"timestamp_format": "%Y-%m-%d %H:%M:%S%z"}, "timestamp", "has %z"),
        ({"true_words": "[x]", "false_words": "-"}, "boolean", r"'\['"),
    ],
)
def test_formats_without_a_rule_are_not_rendered(name, options, type_text, message):
    with pytest.raises(NotRendered, match=message):
        DIALECTS[name].text_value("v", parse(type_text), ValueFormats.of(options))


@pytest.mark.parametrize("name", DIALECTS)
def test_numbers_with_separators_are_rendered_where_there_are_regular_expressions(name):
    dialect, formats = DIALECTS[name], ValueFormats.of({"decimal_separator": ",", "thousands_separator": "'"})
    if name in ("mssql", "fabric"):
        with pytest.raises(NotRendered, match="regular expressions"):
            dialect.text_value("v", parse("decimal(10,2)"), formats)
    else:
        sql = dialect.text_value("v", parse("decimal(10,2)"), formats)
        sqlglot.parse(f"SELECT {sql} FROM t", read=dialect.parser)
