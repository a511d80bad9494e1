"""Tables of values that fit a type and values that do not, for text and for Parquet's types."""

from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.engine.conversions import fits, stored_ddl, typed

pytestmark = pytest.mark.spark


class DoesNotFit(Enum):
    """Marker for a value that does not fit; its text is equal in every process, and so are test names."""

    NO = "does not fit"


DOES_NOT_FIT = DoesNotFit.NO
NO = DOES_NOT_FIT
UUID = "123e4567-E89B-12d3-a456-426614174000"


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


TEXTS = {
    "integer": {
        "12": 12, " 12\t": 12, "+5": 5, "-0": 0, "007": 7, "450.0": 450, "1e2": 100, "120e-1": 12, "1.": 1,
        "2147483647": 2147483647, "2147483648": NO, "1.5": NO, "12e-1": NO, ".5": NO, "": NO, "abc": NO, "1d": NO,
        "0x1F": NO, "1_0": NO, "NaN": NO, "1e400": NO, "1e": NO, "-": NO, "١٢": NO, "1 2": NO,
        "1.00000000000000000000000000000000000000000001": NO,
    },
    "bigint": {
        "9223372036854775807": 2**63 - 1, "-9223372036854775808": -(2**63), "9.223372036854775807e18": 2**63 - 1,
        "9223372036854775808": NO, "0.1": NO,
    },
    "decimal(10,2)": {
        "1.1": Decimal("1.10"), "1.100": Decimal("1.10"), "12345678.12": Decimal("12345678.12"), "5.": Decimal("5.00"),
        "1e-2": Decimal("0.01"), "150e-3": Decimal("0.15"), "-.5 ": Decimal("-0.50"), "0e9": Decimal("0.00"),
        "1.005": NO, "123456789": NO, "1e-3": NO, "150e-4": NO, "1e8": NO, "NaN": NO, "١٢": NO, "": NO, "1,5": NO,
    },
    "float": {
        "450.0": 450.0, "3435": 3435.0, "-1e5": -100000.0, "inf": float("inf"), "-Infinity": float("-inf"),
        " 1.5 ": 1.5, "1e400": NO, "1d": NO, "1F": NO, "0x1p3": NO, "abc": NO, "": NO, "1 2": NO, "1,5": NO,
    },
    "boolean": {
        "true": True, "T": True, "YES": True, "y": True, "1": True, "False": False, "f": False, "no": False,
        "N": False, " 0 ": False, "2": NO, "": NO, "on": NO,
    },
    "date": {
        "2020-02-29": date(2020, 2, 29), " 9999-12-31 ": date(9999, 12, 31), "0001-01-01": date(1, 1, 1),
        "2021-02-29": NO, "2020": NO, "2020-1-1": NO, "20200101": NO, "2020-01-01 x": NO, "0000-01-01": NO,
        "2020-01-01T00:00:00": NO, "01.02.2020": NO,
    },
    "time": {
        "12:30": "12:30", "23:59:59.123456": "23:59:59.123456", "24:00": NO, "1:30": NO, "12:30:15.1234567": NO,
        "10:00:00.0000000": "10:00:00.0000000", "10:00:00.123456000": "10:00:00.123456000", "23:59:60": NO,
    },
    "timestamp": {
        "2020-06-01": at(2020, 6, 1), "2020-06-01T12:30": at(2020, 6, 1, 12, 30),
        "2020-06-01 12:30:01.5": at(2020, 6, 1, 12, 30, 1, 500000), "2020-06-01T12:30:00Z": at(2020, 6, 1, 12, 30),
        "2020-06-01T12:30:00+02:00": at(2020, 6, 1, 10, 30), "2020-06-01 12:30:00 UTC": at(2020, 6, 1, 12, 30),
        "2020-06-01T12:30 -0530": at(2020, 6, 1, 18), "2020-06-01 12:30:00+02": at(2020, 6, 1, 10, 30),
        "2020-06-01T12:30:00.1234560": at(2020, 6, 1, 12, 30, 0, 123456),
        "2020-06-01T12:30:00.1234567": NO, "12:30": NO, "2020": NO, "2020-06-01T24:00:00": NO, "2020-06-31": NO,
        "0000-01-01T00:00:00": NO, "now": NO, "2020-06-01T12": NO, "": NO,
    },
    "binary": {"00ff": bytearray(b"\x00\xff"), "AB": bytearray(b"\xab"), "0": NO, "zz": NO},
    "uuid": {UUID: UUID, f" {UUID} ": UUID, UUID.replace("-", ""): NO, "x": NO},
    "json": {
        '{"a": 1}': '{"a": 1}', "[1]": "[1]", "1": "1", "null": "null", '{"a":1} x': NO, "1] x": NO, "1} x": NO,
        '{"a":1}, {"b":2}': NO, "{'a':1}": NO, "NaN": NO, "": NO,
    },
    "string(3)": {"abc": "abc", "äöü": "äöü", "😀😀😀": "😀😀😀", "": "", "abcd": NO, "ab  ": NO},
    "string": {"": "", " a ": " a ", "x" * 5000: "x" * 5000},
}  # fmt: skip


def convert(spark, type_text, values, options=None, source=None):
    """Return Spark's conversion of the values, or DOES_NOT_FIT."""
    given = source or T.StringType()
    schema = T.StructType([T.StructField("place", T.IntegerType()), T.StructField("v", given)])
    frame = spark.createDataFrame([*enumerate(values), (-1, None)], schema)
    answer = typed(F.col("v"), type_text, options, source)
    results = frame.select("place", answer.alias("answer"), fits(F.col("v"), type_text, options, source).alias("fits"))
    assert results.schema["answer"].dataType.simpleString().upper() == stored_ddl(type_text)
    instants = results.schema["answer"].dataType == T.TimestampType()
    if instants:
        results = results.withColumn("answer", F.unix_micros("answer"))
    rows = {row["place"]: row for row in results.collect()}
    null = rows.pop(-1)
    assert null["answer"] is None
    assert null["fits"] is True
    for row in rows.values():
        assert row["fits"] is (row["answer"] is not None)
    return [NO if rows[n]["answer"] is None else rows[n]["answer"] for n in range(len(values))]


def micros(value):
    return (
        value
        if value is NO
        else (value - at(1970, 1, 1)).days * 86_400_000_000
        + ((value - at(1970, 1, 1)).seconds * 1_000_000 + value.microsecond)
    )


@pytest.mark.core(each=True)
@pytest.mark.parametrize("type_text", TEXTS)
def test_texts_are_converted_to_each_type_or_do_not_fit(spark, type_text):
    expected = list(TEXTS[type_text].values())
    if type_text == "timestamp":
        expected = [micros(value) for value in expected]
    assert convert(spark, type_text, list(TEXTS[type_text])) == expected


def test_float_accepts_nan(spark):
    assert [str(value) for value in convert(spark, "float", ["NaN", " NaN"])] == ["nan", "nan"]


def test_time_zone_option_applies_only_to_timestamps_without_a_zone(spark):
    texts = ["2020-01-01", "2020-06-01T12:30", "2020-06-01 12:30:00Z", "2020-06-01T12:30:00+05:00"]
    expected = [at(2019, 12, 31, 23), at(2020, 6, 1, 10, 30), at(2020, 6, 1, 12, 30), at(2020, 6, 1, 7, 30)]
    instants = convert(spark, "timestamp", texts, {"timezone": "Europe/Berlin"})
    assert instants == [micros(value) for value in expected]


SKIPPED = ["2024-03-31T02:00", "2024-03-31 02:30:00", "2024-03-31T02:59:59.999999"]


def test_a_local_time_that_the_clocks_skip_does_not_fit(spark):
    around = ["2024-03-31T01:59:59", "2024-03-31T03:00", "2024-03-31T02:30Z"]
    expected = [at(2024, 3, 31, 0, 59, 59), at(2024, 3, 31, 1), at(2024, 3, 31, 2, 30)]
    instants = convert(spark, "timestamp", [*SKIPPED, *around], {"timezone": "Europe/Berlin"})
    assert instants == [NO] * len(SKIPPED) + [micros(value) for value in expected]


def test_repeated_local_time_is_the_earlier_instant(spark):
    instants = convert(spark, "timestamp", ["2024-10-27T02:30"], {"timezone": "Europe/Berlin"})
    assert instants == [micros(at(2024, 10, 27, 0, 30))]


def test_a_date_is_its_first_instant_even_where_the_clocks_skip_midnight(spark):
    instants = convert(spark, "timestamp", ["2018-11-04"], {"timezone": "America/Sao_Paulo"})
    assert instants == [micros(at(2018, 11, 4, 3))]


TYPED = [
    ("bigint", T.IntegerType(), {5: 5}),
    ("integer", T.LongType(), {5: 5, 2**31: NO}),
    ("integer", T.DoubleType(), {5.0: 5, 5.5: NO, float("nan"): NO, 1e300: NO}),
    ("decimal(10,2)", T.DecimalType(12, 4), {Decimal("1.1000"): Decimal("1.10"), Decimal("1.1010"): NO}),
    ("decimal(10,2)", T.DoubleType(), {1.1: Decimal("1.10"), 1.125: NO}),
    ("bigint", T.DoubleType(), {5.0: 5, 2.0**63: NO}),
    ("decimal(38,0)", T.LongType(), {2**63 - 1: Decimal(2**63 - 1)}),
    ("string", T.DoubleType(), {-0.0: "0.0", -1.5: "-1.5"}),
    ("float", T.FloatType(), {0.5: 0.5, 2.0**100: 2.0**100}),
    ("float", T.LongType(), {2**53: 2.0**53, 2**53 + 1: NO, 2**63 - 1: NO}),
    ("float", T.DecimalType(10, 2), {Decimal("0.10"): 0.1}),
    ("date", T.TimestampType(), {at(2020, 1, 1): date(2020, 1, 1), at(2020, 1, 1, 1): NO}),
    ("timestamp", T.DateType(), {date(2020, 1, 1): micros(at(2020, 1, 1))}),
    ("timestamp", T.TimestampNTZType(), {datetime(2020, 1, 1): micros(at(2020, 1, 1))}),
    ("string", T.LongType(), {5: "5"}),
    ("string(2)", T.LongType(), {15: "15", 115: NO}),
    ("string", T.BooleanType(), {True: "true"}),
    ("string", T.BinaryType(), {b"a\xc3\xbc": "aü", b"\xff": NO}),
    ("binary", T.BinaryType(), {b"\xff": bytearray(b"\xff")}),
    ("boolean", T.LongType(), {1: NO}),
    ("date", T.LongType(), {1: NO}),
]


@pytest.mark.core(each=True)
@pytest.mark.parametrize(("type_text", "source", "cases"), TYPED, ids=lambda part: str(part)[:30])
def test_typed_values_are_converted_to_each_type_or_do_not_fit(spark, type_text, source, cases):
    assert convert(spark, type_text, list(cases), source=source) == list(cases.values())


def test_nested_values_become_json(spark):
    values = [{"a": [1, 2]}]
    assert convert(spark, "json", values, source=T.MapType(T.StringType(), T.ArrayType(T.IntegerType()))) == [
        '{"a":[1,2]}'
    ]
