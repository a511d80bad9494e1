"""Tests of formats of values: dates, numbers and booleans in a source's own notation."""

import pytest

from elevata.core.errors import MetadataError
from metadata.domain.sources.reading_options import check_options
from metadata.domain.sources.value_formats import NumberFormat, TimeFormat, ValueFormats


@pytest.mark.parametrize(
    ("format_", "text", "standard"),
    [
        ("%d.%m.%Y", "31.12.2024", "2024-12-31"),
        ("%-d/%-m/%Y", "1/2/2024", "2024-02-01"),
        ("%d-%b-%Y", "05-Mar-2024", "2024-03-05"),
        ("%Y%m%d", "20240229", "2024-02-29"),
        ("%d.%m.%Y %H:%M", "31.12.2024 23:59", "2024-12-31T23:59:00.000000"),
        ("%m/%d/%Y, %I:%M %p", "12/31/2024, 12:05 AM", "2024-12-31T00:05:00.000000"),
        ("%Y-%m-%d %H:%M:%S.%f", "2024-01-02 03:04:05.000006", "2024-01-02T03:04:05.000006"),
        ("%Y-%m-%d %H:%M:%S.%f", "2024-01-02 03:04:05.5", "2024-01-02T03:04:05.500000"),
        ("%Y-%m-%d %H:%M:%S.%f", "2024-01-02 03:04:05.123456000", "2024-01-02T03:04:05.123456"),
        ("%Y-%m-%d %H:%M %z", "2024-01-01 00:30 +0200", "2023-12-31T22:30:00.000000Z"),
        ("%Y-%m-%d %H:%M %z", "2024-01-01 00:30 -02", "2024-01-01T02:30:00.000000Z"),
        ("%Y-%m-%d %H:%M%z", "2024-01-01 00:30Z", "2024-01-01T00:30:00.000000Z"),
        ("%d-%b-%Y", "05-MAR-2024", "2024-03-05"),
        ("%-d %B %Y", "5 september 2024", "2024-09-05"),
        ("%d. %b %Y", "05. Mär. 2024", "2024-03-05"),
        ("%d. %b %Y", "05. MAI 2024", "2024-05-05"),
        ("%-d %b %Y", "5 févr. 2024", "2024-02-05"),
        ("%-d %B %Y", "5 AOÛT 2024", "2024-08-05"),
        ("%-d. %B %Y", "5. Dezember 2024", "2024-12-05"),
        ("%d.%m.%y", "05.03.69", "2069-03-05"),
        ("%d.%m.%y", "05.03.70", "1970-03-05"),
        ("%d.%m.%Y %H:%M", "31.12.2024\u00a023:59", "2024-12-31T23:59:00.000000"),
        ("%d.%m.%Y %H:%M", "31.12.2024\u202f23:59", "2024-12-31T23:59:00.000000"),
        ("%d.%m.%Y %I:%M %p", "31.12.2024 11:00 pm", "2024-12-31T23:00:00.000000"),
        ("%Y-%m-%d %H:%M %z", "2024-01-01 00:30 +02:00", "2023-12-31T22:30:00.000000Z"),
    ],
)
def test_a_time_in_its_format_is_read(format_: str, text: str, standard: str):
    assert TimeFormat(format_).read(text) == standard


@pytest.mark.parametrize(
    ("format_", "text"),
    [
        ("%d.%m.%Y", "2024-12-31"),  # standard, but not as declared
        ("%d.%m.%Y", "1.2.2024"),  # two digits are declared
        ("%d.%m.%Y", "30.02.2024"),
        ("%d.%m.%Y", "31.12.2024 "),
        ("%Y-%m-%d %H:%M:%S.%f", "2024-01-02 03:04:05.1234567"),
        ("%Y-%m-%d %H:%M:%S.%f", "2024-01-02 03:04:05.0000000000"),
        ("%Y-%m-%d %H:%M %z", "2024-01-01 00:30 +2"),
        ("%d.%m.%Y %H:%M", "31.12.2024 24:00"),
        ("%d.%m.%Y %I:%M %p", "31.12.2024 13:00 PM"),
        ("%d.%m.%Y", "٣١.١٢.٢٠٢٤"),
        ("%d. %b %Y", "05. Mrt. 2024"),
        ("%d.%m.%y", "29.02.70"),
        ("%d.%m.%y", "29.02.2024"),
    ],
)
def test_a_time_in_another_format_is_not_read(format_: str, text: str):
    assert TimeFormat(format_).read(text) is None


@pytest.mark.parametrize(
    ("decimal", "thousands", "text", "standard"),
    [
        (",", ".", "1.234.567,89", "1234567.89"),
        (",", ".", "1234,5", "1234.5"),
        (",", ".", "-0,5e-3", "-0.5e-3"),
        (".", "'", "1'000", "1000"),
        (",", "\u202f", "12\u202f345", "12345"),
        (",", " ", "1\u00a0234\u202f567 890,5", "1234567890.5"),
        (",", "\u00a0", "12 345", "12345"),
        (",", "", "NaN", "NaN"),
    ],
)
def test_a_number_with_its_separators_is_read(decimal: str, thousands: str, text: str, standard: str):
    assert NumberFormat(decimal, thousands).read(text) == standard


def test_first_year_sets_the_century_of_years_of_two_digits():
    read = ValueFormats.of({"date_format": "%d.%m.%y", "first_year": 1930}).reader("date")
    assert [read(text) for text in ("01.02.29", "01.02.30")] == ["2029-02-01", "1930-02-01"]


@pytest.mark.parametrize(
    ("negative", "text", "standard"),
    [
        ("trailing", "1.234,50-", "-1234.50"),
        ("trailing", "12", "12"),
        ("trailing", "-12", "-12"),
        ("trailing", "-12-", None),
        ("trailing", "12+", None),
        ("trailing", "(12)", None),
        ("brackets", "(1.234,50)", "-1234.50"),
        ("brackets", "-3", "-3"),
        ("brackets", "(-3)", None),
        ("brackets", "(3", None),
        ("brackets", "12-", None),
        ("spaced", "- 1.234,50", "-1234.50"),
        ("spaced", "-\u00a012", "-12"),
        ("spaced", "-12", "-12"),
        ("spaced", "12", "12"),
        ("spaced", "-  12", None),
        ("spaced", "12-", None),
        ("spaced", "- -12", None),
        ("trailing", "- 12", None),
        ("", "12-", None),
    ],
)
def test_negative_numbers_are_read_in_the_declared_way(negative: str, text: str, standard: str | None):
    assert NumberFormat(",", ".", negative).read(text) == standard


@pytest.mark.parametrize("text", ["1.23", "1234.5", "1.2345,6", "1,2,3", "12.34.567"])
def test_a_number_with_other_separators_is_not_read(text: str):
    assert NumberFormat(",", ".").read(text) is None


def test_declared_boolean_words_replace_the_default_ones():
    read = ValueFormats.of({"true_words": "ja, WAHR", "false_words": "nein"}).reader("boolean")
    assert [read(text) for text in ("JA", "wahr", "Nein", "true")] == ["true", "true", "false", None]


@pytest.mark.parametrize(
    ("options", "field", "reason"),
    [
        ({"date_format": "%d.%m.%y"}, "first_year", "is needed with %y"),
        ({"date_format": "%d.%m.%y", "first_year": 0}, "first_year", "a year from 1 to 9900"),
        ({"negative_numbers": "red"}, "negative_numbers", "trailing, brackets or spaced"),
        ({"date_format": "%d.%m"}, "date_format", "a format like"),
        ({"date_format": "%d.%m.%Y %H:%M"}, "date_format", "a format like"),
        ({"timestamp_format": "%d.%m.%Y"}, "timestamp_format", "a format like"),
        ({"timestamp_format": "%d.%m.%Y %I:%M"}, "timestamp_format", "a format like"),
        ({"decimal_separator": ",", "thousands_separator": ","}, "thousands_separator", "the decimal separator, too"),
        ({"thousands_separator": "."}, "thousands_separator", "the decimal separator, too"),
        ({"decimal_separator": ";"}, "decimal_separator", "a point or a comma"),
        ({"true_words": "ja"}, "false_words", "needed with true_words"),
        ({"true_words": "ja, x", "false_words": "nein, X"}, "false_words", "a word for true, too"),
        ({"fold_keys": "title"}, "fold_keys", "lower or upper"),
    ],
)
def test_contradicting_value_formats_are_refused_with_their_field(options: dict, field: str, reason: str):
    with pytest.raises(MetadataError, match=reason) as caught:
        check_options("csv", options)
    assert caught.value.field == f"options.{field}"
