"""Encodings of Debezium's columns by schema and contract, and the forms of its placeholder."""

import base64

import pytest

from loader.domain.sources.debezium import Encoding, doubtful_ranges, encoding_of, encodings
from loader.domain.sources.debezium import implied_encoding as implied
from loader.domain.sources.placeholders import Placeholder
from metadata.domain.sources.option_kinds import PLACEHOLDER, TIME_UNITS, UNAVAILABLE, TimeUnits

DECIMAL = "org.apache.kafka.connect.data.Decimal"


@pytest.mark.parametrize(
    ("schema", "kind", "unit"),
    [
        ({"type": "int64", "name": "io.debezium.time.Timestamp"}, "moment", "milliseconds"),
        ({"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, "moment", "microseconds"),
        ({"type": "int64", "name": "io.debezium.time.NanoTimestamp"}, "moment", "nanoseconds"),
        ({"type": "int32", "name": "org.apache.kafka.connect.data.Time"}, "clock", "milliseconds"),
        ({"type": "int64"}, "plain", ""),
        ({"type": "string", "name": "com.example.Masked"}, "plain", ""),
        ({"type": "int64", "name": "com.example.Ticks"}, "unread", ""),
        ({"type": "bytes", "name": "com.example.Secret"}, "unread", ""),
        ({"type": "struct", "name": "io.debezium.data.Unheard"}, "unread", ""),
        ({"type": "array", "items": {"type": "int32"}}, "document", ""),
        ({"type": "array", "items": {"type": "int32", "name": "io.debezium.time.Date"}}, "array", ""),
        ({"type": "array", "items": {"type": "int64", "name": "com.example.Ticks"}}, "unread", ""),
        ({"type": "map", "keys": {"type": "string"}, "values": {"type": "string"}}, "document", ""),
        ({"type": "map", "keys": {"type": "string"}, "values": {"type": "bytes"}}, "unread", ""),
        ({"type": "struct", "fields": [{"field": "x", "type": "double"}]}, "document", ""),
        ({"type": "bytes", "name": DECIMAL, "parameters": {"scale": "x"}}, "unread", ""),
        (None, "unread", ""),
    ],
)
def test_a_schema_gives_the_encoding_of_a_column(schema, kind, unit):
    encoding = encoding_of(schema)
    assert (encoding.kind, encoding.unit) == (kind, unit)


def test_fields_of_structures_have_their_path():
    inner = {"field": "at", "type": "int32", "name": "io.debezium.time.Date"}
    fields = [{"field": "p", "type": "struct", "fields": [inner]}]
    known = encodings(fields)
    assert (known["p"].kind, known["p.at"].kind) == ("unread", "days")
    assert encodings("x") == encodings(None) == {}


def test_contract_and_declared_unit_determine_the_encoding_without_a_schema():
    assert implied("timestamp", "milliseconds", True, "") == Encoding("moment", unit="milliseconds")
    assert not implied("timestamp", "microseconds", False, "").is_declared
    assert implied("time", "microseconds", False, "").kind == "plain"
    assert implied("time", "milliseconds", True, "") == Encoding("clock", unit="milliseconds")
    assert [implied("binary", "", False, text).kind for text in ("base64", "hex", "")] == ["bytes", "plain", "plain"]


@pytest.mark.parametrize(
    ("text", "others", "of_columns"),
    [
        ("milliseconds", "milliseconds", {}),
        ("t3=milliseconds, t 9 = nanoseconds", "microseconds", {"t3": "milliseconds", "t 9": "nanoseconds"}),
        ("nanoseconds,a=b=milliseconds", "nanoseconds", {"a=b": "milliseconds"}),
    ],
)
def test_time_units_option_sets_units_by_column_and_for_all_others(text, others, of_columns):
    units = TimeUnits.of(text)
    assert units is not None
    assert (units.others, units.of_columns) == (others, of_columns)


@pytest.mark.parametrize("text", ["seconds", "", "a=", "=milliseconds", "a=seconds", "milliseconds,milliseconds", 3])
def test_time_units_option_refuses_invalid_texts(text):
    assert not TIME_UNITS.fits(text)


def test_doubtful_ranges_contain_only_numbers_of_a_larger_unit():
    milliseconds = 1_706_695_200_000
    ((low, high),) = doubtful_ranges("microseconds")
    assert low <= milliseconds <= high
    assert not low <= milliseconds * 1_000 <= high
    assert not low <= 3_600_000_000 <= high
    assert doubtful_ranges("milliseconds") == []
    assert all(low <= high for low, high in doubtful_ranges("nanoseconds"))


def test_the_placeholder_has_the_form_of_each_type():
    content = UNAVAILABLE.encode()
    forms = Placeholder.of(UNAVAILABLE).texts
    for form in (
        UNAVAILABLE,
        f'["{UNAVAILABLE}"]',
        base64.b64encode(content).decode(),
        f'["{base64.b64encode(content).decode()}"]',
        content.hex(),
        str(list(content)).replace(" ", ""),
        '["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]',
        f'{{"{UNAVAILABLE}":"{UNAVAILABLE}"}}',
    ):
        assert form in forms
    assert any("AQEAACDmEAAAAAAA" in part for part in Placeholder.of("x").parts)


def test_a_placeholder_may_be_configured_as_text_or_bytes():
    assert "__gone" in Placeholder.of("__gone").texts
    assert UNAVAILABLE not in Placeholder.of("__gone").texts
    assert "[-1,0]" in Placeholder.of("hex:ff00").texts
    assert PLACEHOLDER.fits("hex:ff00")
    assert not PLACEHOLDER.fits("hex:f")
