"""Encoding v2 on Spark equals the one in Python, for every type, in one frame."""

import random
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.domain.historization import hashing as pure
from loader.engine import hashing
from tests.loader.domain.historization.test_hashing import CANONICAL, DIGESTS

pytestmark = pytest.mark.spark

ROWS = 400
PEPPER = "salt~and|pepper\\"

FLOATS = [0.0, -0.0, 0.1, -3.0, 450.0, 1e-7, 1e15, 1e16, 5e-324, 1.7976931348623157e308, 2.0**53, -(2.0**53)]
FLOATS += [2.0**53 - 1, 1 - 2.0**53, 2.0**53 - 2, 2.0**63, 0.5, float("nan"), float("inf"), float("-inf")]
TEXTS = ["", " ", "~", "|", "\\", "a|b~c\\d", "\\|~", "NULL", "Zürich ß 東京 😀", "a\nb\r\n", "\x00", "é" * 50]


def any_double(rng: random.Random) -> float:
    """Return a double: half of the time any 64 bits, otherwise one of ordinary size."""
    if rng.random() < 0.5:
        return struct.unpack("<d", rng.randbytes(8))[0]
    return rng.choice([rng.uniform(-180, 180), float(rng.randint(-(10**6), 10**6)), rng.random()])


def single(value: float) -> float:
    """Return the nearest 32-bit float."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def any_text(rng: random.Random) -> str:
    return "".join(rng.choice("ab ~|\\üß東😀\n\t'\"0") for _ in range(rng.randint(0, 12)))


def any_decimal(rng: random.Random, precision: int, scale: int) -> Decimal:
    digits = rng.randint(0, precision)
    unscaled = rng.randint(-(10**digits) + 1, 10**digits - 1) if digits else 0
    if rng.random() < 0.3:  # encodings of decimals are prone to errors with trailing zeros
        unscaled -= unscaled % 10 ** rng.randint(0, scale + 1)
        unscaled = max(unscaled, -(10**precision) + 1)
    sign, digits = int(unscaled < 0), tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((sign, digits, -scale))  # not scaleb: it rounds to 28 digits


def any_moment(rng: random.Random) -> datetime:
    return datetime(1, 1, 1, tzinfo=UTC) + timedelta(
        days=rng.randint(0, 3_652_058), seconds=rng.randint(0, 86_399), microseconds=rng.randint(0, 999_999)
    )


def generated() -> dict[str, tuple[T.DataType, list]]:
    """Return type and values per column: special values first, then seeded random ones, then NULLs."""
    rng = random.Random(20200101)
    makers = {
        "text": (T.StringType(), TEXTS, any_text),
        "flag": (T.BooleanType(), [True, False], lambda r: r.random() < 0.5),
        "small": (T.ShortType(), [-(2**15), 2**15 - 1], lambda r: r.randint(-(2**15), 2**15 - 1)),
        "integer": (T.IntegerType(), [0, -(2**31), 2**31 - 1], lambda r: r.randint(-(2**31), 2**31 - 1)),
        "bigint": (T.LongType(), [0, -(2**63), 2**63 - 1], lambda r: r.randint(-(2**63), 2**63 - 1)),
        "money": (T.DecimalType(10, 2), [Decimal("1.10"), Decimal("0.00")], lambda r: any_decimal(r, 10, 2)),
        "tiny": (T.DecimalType(38, 18), [Decimal("1E-18"), Decimal("0E-18")], lambda r: any_decimal(r, 38, 18)),
        "whole": (T.DecimalType(38, 0), [Decimal(10**37)], lambda r: any_decimal(r, 38, 0)),
        "fraction": (T.DecimalType(7, 7), [Decimal("0.0000001")], lambda r: any_decimal(r, 7, 7)),
        "double": (T.DoubleType(), FLOATS, any_double),
        "single": (T.FloatType(), [0.5, float("nan")], lambda r: single(r.uniform(-1e6, 1e6))),
        "moment": (T.TimestampType(), [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)], any_moment),
        "day": (T.DateType(), [date(1, 1, 1), date(9999, 12, 31)], lambda r: any_moment(r).date()),
        "bytes": (T.BinaryType(), [b"", b"\x00~|\\"], lambda r: r.randbytes(r.randint(0, 9))),
    }
    return {
        name: (data_type, [*first, *(make(rng) for _ in range(ROWS - len(first) - 40)), *[None] * 40])
        for name, (data_type, first, make) in makers.items()
    }


@pytest.fixture(scope="module")
def answers(spark):
    """Return Spark's texts and digests for the generated values, and the values themselves."""
    columns = generated()
    schema = T.StructType([T.StructField(name, data_type) for name, (data_type, _) in columns.items()])
    rows = list(zip(*(values for _, values in columns.values()), strict=True))
    random.Random(7).shuffle(rows)
    frame = spark.createDataFrame(rows, schema).coalesce(1)
    components = [(name, F.col(name), data_type) for name, (data_type, _) in columns.items()]
    texts = [hashing.canonical(column, data_type).alias(name) for name, column, data_type in components]
    whole = [
        hashing.encode(components).alias("_encoded"),
        hashing.digest(components).alias("_digest"),
        hashing.digest(components, PEPPER).alias("_peppered"),
    ]
    return list(columns), rows, frame.select(*texts, *whole).collect()


@pytest.mark.core
def test_canonical_texts_of_spark_equal_those_of_python(answers):
    names, rows, results = answers
    for row, answer in zip(rows, results, strict=True):
        expected = dict(zip(names, map(pure.canonical_text, row), strict=True))
        assert {name: answer[name] for name in names} == expected


@pytest.mark.core
def test_encodings_and_digests_of_spark_equal_those_of_python(answers):
    names, rows, results = answers
    for row, answer in zip(rows, results, strict=True):
        components = list(zip(names, row, strict=True))
        assert answer._encoded == pure.encode(components)
        assert answer._digest == pure.digest(components)
        assert answer._peppered == pure.digest(components, PEPPER)


def spark_type(value: object) -> T.DataType:
    """Return a type that holds ``value`` unchanged."""
    if isinstance(value, Decimal):
        scale = max(0, -value.as_tuple().exponent)
        return T.DecimalType(38, scale)
    kinds = [(bool, T.BooleanType), (int, T.LongType), (float, T.DoubleType), (datetime, T.TimestampType)]
    kinds += [(date, T.DateType), (bytes, T.BinaryType)]
    return next((to() for kind, to in kinds if isinstance(value, kind)), T.StringType())


@pytest.mark.core
def test_spark_produces_the_golden_texts_and_digests(spark):
    """Check the values in a frame, since Spark would fold literals by other code."""
    values = [value.replace(tzinfo=UTC) if naive(value) else value for value, _ in CANONICAL]
    schema = T.StructType([T.StructField(f"c{n}", spark_type(value)) for n, value in enumerate(values)])
    frame = spark.createDataFrame([tuple(values)], schema)
    texts = [hashing.canonical(F.col(field.name), field.dataType) for field in schema]
    assert list(frame.select(*texts).first()) == [text for _, text in CANONICAL]
    for components, pepper, expected in DIGESTS:
        given = [(name, F.lit(value), spark_type(value)) for name, value in components]
        assert spark.range(1).select(hashing.digest(given, pepper)).first()[0] == expected


def naive(value: object) -> bool:
    return isinstance(value, datetime) and value.tzinfo is None


@pytest.mark.core
def test_widening_changes_no_digest(spark):
    """Compare digests before and after widening, in place or by a rebuild."""
    widenings = {
        "CAST(n AS int)": ["bigint", "double", "decimal(10,0)", "decimal(14,4)", "decimal(38,18)"],
        "CAST(n AS bigint)": ["decimal(20,0)", "decimal(30,10)"],
        "CAST(n AS float) / 7": ["double"],
        "CAST(CAST(n AS decimal(10,2)) / 8 AS decimal(10,2))": ["decimal(12,2)", "decimal(14,4)"],
        "DATE_ADD(DATE'1970-01-01', CAST(n AS int))": ["timestamp", "timestamp_ntz"],
        "n % 2 = 0": ["string"],
        "CAST(n AS varchar(5))": ["varchar(9)", "string"],
    }
    frame = spark.range(-300, 300).withColumnRenamed("id", "n")
    tests = {}
    for narrow, wides in widenings.items():
        for wide in wides:
            narrow_frame, other = frame.selectExpr(f"{narrow} AS v"), frame.selectExpr(f"CAST({narrow} AS {wide}) AS v")
            before = hashing.digest([("k", F.expr(narrow), narrow_frame.schema[0].dataType)])
            after = hashing.digest([("k", F.expr(f"CAST({narrow} AS {wide})"), other.schema[0].dataType)])
            tests[f"{narrow} to {wide}"] = F.count_if(before != after)
    totals = frame.agg(*(count.alias(name.replace(".", "")) for name, count in tests.items())).first()
    assert {name: count for name, count in totals.asDict().items() if count} == {}


def test_a_nested_type_is_refused():
    with pytest.raises(TypeError, match="array<int> has no canonical text"):
        hashing.canonical(F.col("a"), T.ArrayType(T.IntegerType()))


@pytest.mark.core
def test_digest_plan_contains_no_python(spark):
    frame = spark.range(1).select(hashing.digest([("k", F.col("id"), T.LongType())]).alias("h"))
    plan = frame._jdf.queryExecution().toString()
    assert "Python" not in plan
