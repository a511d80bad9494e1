"""Declared formats of values on Spark: the same texts as in pure Python, and deliveries with them."""

from random import Random

import pytest
from pyspark.sql import functions as F

from loader.contract.manifest.sources import DeliveredColumn, SourceSpec
from loader.contract.refusals import Refusal
from loader.engine.conversions import typed
from loader.engine.sources.deliveries import read_delivery
from loader.engine.value_formats import standard_text
from metadata.domain.sources.value_formats import ValueFormats

pytestmark = pytest.mark.spark

FORMATS = {
    "date": [
        *(
            {"date_format": text}
            for text in ("%d.%m.%Y", "%-d/%-m/%Y", "%d-%b-%Y", "%Y%m%d", "%-d %B %Y", "%-d. %b %Y")
        ),
        {"date_format": "%d.%m.%y", "first_year": 1930},
        {"date_format": "%b-%y-%d", "first_year": 1970},
    ],
    "timestamp": [
        {"timestamp_format": text}
        for text in (
            "%d.%m.%Y %H:%M",
            "%m/%d/%Y, %-I:%M %p",
            "%Y-%m-%d %H:%M:%S.%f",
            "%Y-%m-%d at %H o'clock %z",
            "%z %H:%M:%S.%f %Y-%m-%d",
            "%Y%m%d%H%M%S",
        )
    ],
    "float": [
        {"decimal_separator": ",", "thousands_separator": "."},
        {"thousands_separator": "\u00a0"},
        {"decimal_separator": ","},
        {"decimal_separator": ",", "thousands_separator": ".", "negative_numbers": "trailing"},
        {"negative_numbers": "brackets"},
        {"decimal_separator": ",", "thousands_separator": " ", "negative_numbers": "spaced"},
    ],
    "boolean": [{"true_words": "ja, wahr", "false_words": "nein, 0"}],
}
TEXTS = {
    "date": [
        "31.12.2024", "30.02.2024", "1/2/2024", "29/2/2023", "05-Mar-2024", "05-mar-2024", "20240229", "00000101",
        "2024-12-31", "05-MAR-2024", "5 SEPTEMBER 2024", "5\u00a0may\u202f2024",
        "5. MÄR. 2024", "5. Mai 2024", "05. févr. 2024", "5 AOÛT 2024", "31.12.29", "01.02.30", "29.02.00", "Okt-69-01",
        "Dez.-70-31",
    ],
    "timestamp": [
        "31.12.2024 23:59", "31.12.2024 24:00", "12/31/2024, 12:05 AM", "12/31/2024, 0:05 AM", "12/31/2024, 1:05 pm",
        "2024-01-02 03:04:05.000006", "2024-01-02 03:04:05.6", "2024-01-01 at 00 o'clock +02:00",
        "2024-01-01 at 00 o'clock +25:00", "0001-01-01 at 00 o'clock +02:00", "20240102030405",
        "2024-01-01 at 00 o'clock +0200", "2024-01-01 at 00 o'clock Z", "2024-01-01 at 00\u00a0o'clock -02",
        "+0130 10:00:00.5 2024-01-01", "Z 10:00:00.123456000 2024-01-01", "-03 10:00:00.1234567 2024-01-01",
        "+15:00 10:00:00.5 2024-01-01", "-00:30 10:00:00.000001 2024-01-01",
    ],
    "float": [
        "1.234.567,89", "1.23", "1234,5", "-0,5e-3", "1.2345,6", "12,3,4", "NaN", "-inf", "1\u00a0000.5", ".5", ",5",
        "+", "1e5", "1 000.5", "1\u202f000\u00a0000", "1.234,50-", "12,5-", "-12,5-", "(12.5)", "(-1)", "()",
        "-", "(3", "1e5-", "7-", "- 12,5", "-\u00a01 234", "- 5-", "-  5", "- ",
    ],
    "boolean": ["JA", "wahr", "Nein", "0", "true", "1", "", "j"],
}  # fmt: skip


def _mutations(texts: list[str]) -> list[str]:
    """Return the texts, and each with a character removed, doubled or replaced at random."""
    random = Random(7)
    changed = []
    for text in texts * 4:
        place = random.randrange(len(text) + 1)
        changed.append(text[:place] + random.choice(["", "0", "1", " ", ".", ",", "-", "x"]) + text[place + 1 :])
    return [*texts, *changed]


@pytest.mark.core
@pytest.mark.parametrize("type_text", FORMATS)
def test_spark_and_python_read_formatted_values_alike(spark, type_text: str):
    texts = [text for text in _mutations(TEXTS[type_text]) if text == text.strip()]
    frame = spark.createDataFrame([(place, text) for place, text in enumerate(texts)], "place int, text string")
    formats = [ValueFormats.of(options) for options in FORMATS[type_text]]
    columns = [standard_text(F.col("text"), type_text, each).alias(f"f{n}") for n, each in enumerate(formats)]
    rows = {row["place"]: row for row in frame.select("place", *columns).collect()}
    for number, each in enumerate(formats):
        read = each.reader(type_text)
        assert read is not None
        assert {text: rows[place][f"f{number}"] for place, text in enumerate(texts)} == {
            text: read(text) for text in texts
        }


def test_source_time_zone_applies_to_a_declared_timestamp_format(spark):
    options = {"timestamp_format": "%d.%m.%Y %H:%M", "timezone": "Europe/Berlin"}
    frame = spark.createDataFrame([("01.06.2024 12:00",), ("31.03.2024 02:30",)], "v string")
    rows = frame.select(typed(F.col("v"), "timestamp", options).cast("string")).collect()
    assert [row[0] for row in rows] == ["2024-06-01 10:00:00", None]


COLUMNS = (
    DeliveredColumn("k-id", "id", "string", business_key=True),
    DeliveredColumn("k-born", "born", "date"),
    DeliveredColumn("k-paid", "paid", "decimal(10,2)"),
    DeliveredColumn("k-vip", "vip", "boolean"),
)
OPTIONS = {
    "delimiter": ";",
    "date_format": "%d.%m.%Y",
    "decimal_separator": ",",
    "thousands_separator": ".",
    "true_words": "ja",
    "false_words": "nein",
    "trim_keys": True,
    "fold_keys": "upper",
    "ignored_columns": "note, filler",
}
HEAD = "id;born;paid;vip;note\n"


def test_a_delivery_is_checked_in_its_own_formats_and_raw_keeps_its_texts(spark, put):
    source = SourceSpec("src", put("a.csv", HEAD + " a1 ;31.12.1999;1.234,50;ja;x\n"), "csv", COLUMNS, OPTIONS)
    delivery = read_delivery(spark, source)
    rows = [tuple(row) for row in delivery.frame.collect()]
    delivery.release()
    assert rows == [("A1", "31.12.1999", "1.234,50", "ja")]
    assert delivery.unknown == []


@pytest.mark.parametrize(
    ("rows", "code", "column"),
    [
        ("a;1999-12-31;1,5;ja;\n", "VALUE_DOES_NOT_FIT", "born"),
        ("a;31.12.1999;1.5;ja;\n", "VALUE_DOES_NOT_FIT", "paid"),
        ("a;31.12.1999;1,5;true;\n", "VALUE_DOES_NOT_FIT", "vip"),
        ("  ;31.12.1999;1,5;ja;\n", "NULL_KEY", "id"),
        ("a;31.12.1999;1,5;ja;\n A ;31.12.1999;2,5;ja;\n", "CONFLICTING_ROWS", "id"),
    ],
)
def test_a_delivery_in_other_formats_is_refused(spark, put, rows: str, code: str, column: str):
    with pytest.raises(Refusal) as caught:
        read_delivery(spark, SourceSpec("src", put("a.csv", HEAD + rows), "csv", COLUMNS, OPTIONS))
    assert (caught.value.code, caught.value.column) == (code, column)


def test_keys_that_differ_only_by_blanks_and_case_are_one_row(spark, put):
    rows = "a;31.12.1999;1,5;ja;\n A ;31.12.1999;1,50;JA;\n"
    delivery = read_delivery(spark, SourceSpec("src", put("a.csv", HEAD + rows), "csv", COLUMNS, OPTIONS))
    delivery.release()
    assert (delivery.rows, delivery.duplicates) == (2, 1)
