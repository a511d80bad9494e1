"""Types of Debezium and their values as they arrive: the table in docs/use/debezium.md, each line a case of a test.

A field has ``(type, logical name, more of the schema)``; without a schema it is None.
"""

import base64
import json
from dataclasses import dataclass, field
from typing import Any

from tests.loader.engine.sources.kafka.messages import field as schema_field
from tests.repository.docs_tables import markdown_table

REFUSED = "refused"
_TIME, _DATA, _CONNECT = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."
HEAD = ("type", "message", "contract", "arrives")
_SCALE = {"parameters": {"scale": "2"}}
_DAYS = {"items": {"type": "int32", "name": f"{_TIME}Date"}}
_PRICES = {"items": {"type": "bytes", "name": f"{_CONNECT}Decimal", "parameters": {"scale": "2"}}}
_POINT = {"fields": [schema_field("x", "double"), schema_field("wkb", "bytes"), schema_field("srid", "int32")]}
_VARIABLE = {"fields": [schema_field("scale", "int32"), schema_field("value", "bytes")]}
_BITS = {"parameters": {"length": "3"}}
_VARIABLE_BITS = {"parameters": {"length": "2147483647"}}
_ITEM = {"fields": [schema_field("made", "int32", f"{_TIME}Date")]}


@dataclass(frozen=True)
class Case:
    """Value of a column in a message, the column's type in the contract, and the value that arrives."""

    schema: str
    value: Any
    type: str
    arrives: str | None
    more: dict[str, Any] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)

    @property
    def line(self) -> tuple[str, str, str, str]:
        """Return the line of the table."""
        named = f"`{self.schema}`" if self.schema else "no schema"
        items = self.more.get("items", {})
        if items:
            named += f" of `{items.get('name', items['type'])}`"
        if parameters := self.more.get("parameters"):
            named += "".join(f", {name} {value}" for name, value in parameters.items())
        if self.options:
            named += "".join(f", `{name}: {value}`" for name, value in self.options.items())
        arrives = REFUSED if self.arrives == REFUSED else f"`{self.arrives}`"
        return named, f"`{json.dumps(self.value)}`", self.type, arrives

    def field_of(self, name: str) -> dict[str, Any] | None:
        """Return the column's field in a schema."""
        type_, _, logical = self.schema.partition(" ")
        return schema_field(name, type_, logical, **self.more) if type_ else None


def _b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


_UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545b"
_MILLISECONDS, _MICROSECONDS = 1_706_695_200_123, 1_706_695_200_123_456
WITH_SCHEMA = (
    Case(f"int32 {_TIME}Date", 19_753, "date", "2024-01-31"),
    Case(f"int32 {_TIME}Date", 19_753, "string", "2024-01-31"),
    Case(f"int32 {_TIME}Date", 19_753, "integer", "19753"),
    Case(f"int32 {_TIME}Date", 2_147_483_647, "date", REFUSED),
    Case(f"int32 {_CONNECT}Date", 19_753, "date", "2024-01-31"),
    Case(f"string {_TIME}IsoDate", "2024-01-31Z", "date", "2024-01-31"),
    Case(f"int64 {_TIME}Timestamp", _MILLISECONDS, "timestamp", "2024-01-31 10:00:00.123"),
    Case(f"int64 {_TIME}Timestamp", _MILLISECONDS, "string", "2024-01-31T10:00:00.123000Z"),
    Case(f"int64 {_TIME}Timestamp", _MILLISECONDS, "bigint", "1706695200123"),
    Case(f"int64 {_TIME}Timestamp", _MILLISECONDS, "date", REFUSED),
    Case(f"int64 {_TIME}Timestamp", _MILLISECONDS, "json", REFUSED),
    Case(f"int64 {_TIME}Timestamp", _MICROSECONDS, "timestamp", REFUSED),
    Case(f"int64 {_CONNECT}Timestamp", _MILLISECONDS, "timestamp", "2024-01-31 10:00:00.123"),
    Case(f"int64 {_TIME}MicroTimestamp", _MICROSECONDS, "timestamp", "2024-01-31 10:00:00.123456"),
    Case(f"int64 {_TIME}MicroTimestamp", 1_706_695_200_000, "timestamp", "1970-01-20 18:04:55.2"),
    Case(f"int64 {_TIME}MicroTimestamp", 9_223_371_331_200_000_000, "timestamp", REFUSED),
    Case(f"int64 {_TIME}NanoTimestamp", _MICROSECONDS * 1_000, "timestamp", "2024-01-31 10:00:00.123456"),
    Case(f"int64 {_TIME}NanoTimestamp", _MICROSECONDS * 1_000 + 1, "timestamp", REFUSED),
    Case(f"string {_TIME}ZonedTimestamp", "2024-01-31T11:00:00+01:00", "timestamp", "2024-01-31 10:00:00"),
    Case(f"string {_TIME}IsoTimestamp", "2024-01-31T10:00:00Z", "timestamp", "2024-01-31 10:00:00"),
    Case(f"int32 {_TIME}Time", 36_000_123, "time", "10:00:00.123000"),
    Case(f"int32 {_CONNECT}Time", 36_000_000, "time", "10:00:00"),
    Case(f"int64 {_TIME}MicroTime", 36_000_000_000, "time", "10:00:00"),
    Case(f"int64 {_TIME}MicroTime", -1, "time", REFUSED),
    Case(f"int64 {_TIME}MicroTime", 86_400_000_000, "string", REFUSED),
    Case(f"int64 {_TIME}NanoTime", 36_000_000_001_000, "time", "10:00:00.000001"),
    Case(f"string {_TIME}IsoTime", "10:00:00Z", "time", "10:00:00"),
    Case(f"string {_TIME}ZonedTime", "10:00:00Z", "string", "10:00:00Z"),
    Case(f"string {_TIME}ZonedTime", "10:00:00Z", "time", REFUSED),
    Case(f"int32 {_TIME}Year", 2024, "integer", "2024"),
    Case(f"int64 {_TIME}MicroDuration", 3_600_000_000, "bigint", "3600000000"),
    Case(f"int64 {_TIME}MicroDuration", 3_600_000_000, "string", REFUSED),
    Case(f"string {_TIME}Interval", "P1Y2M3DT4H5M6S", "string", "P1Y2M3DT4H5M6S"),
    Case(f"bytes {_CONNECT}Decimal", _b64(b"\x00\x9c"), "decimal(10,2)", "1.56", _SCALE),
    Case(f"bytes {_CONNECT}Decimal", "1234", "decimal(10,2)", "-26588.24", _SCALE),
    Case(f"bytes {_CONNECT}Decimal", _b64(b"\xff"), "string", "-0.01", _SCALE),
    Case(f"bytes {_CONNECT}Decimal", 12.34, "decimal(10,2)", "12.34", _SCALE),
    Case(f"bytes {_CONNECT}Decimal", _b64(b"\x01"), "decimal(10,2)", "100.00", {"parameters": {"scale": "-2"}}),
    Case(f"bytes {_CONNECT}Decimal", _b64(b"\x7f" * 17), "decimal(38,2)", REFUSED, _SCALE),
    Case(f"struct {_DATA}VariableScaleDecimal", {"scale": 2, "value": "AJw="}, "decimal(10,2)", "1.56", _VARIABLE),
    Case("string", "12.340", "decimal(10,2)", "12.34"),
    Case("double", 0.1, "float", "0.1"),
    Case("float", 1.5, "float", "1.5"),
    Case("int64", 9_007_199_254_740_993, "bigint", "9007199254740993"),
    Case("int64", 1_706_695_200_000, "timestamp", REFUSED),
    Case("boolean", True, "boolean", "true"),
    Case("bytes", "aGVsbG8=", "binary", "68656C6C6F"),
    Case("bytes", "aGVsbG8=", "string", "aGVsbG8="),
    Case("bytes", "1234", "integer", REFUSED),
    Case("bytes", "!", "binary", REFUSED),
    Case(f"bytes {_DATA}Bits", _b64(b"\x05"), "string", "101", _BITS),
    Case(f"bytes {_DATA}Bits", _b64(b"\x05\x01"), "integer", "261", {"parameters": {"length": "9"}}),
    Case(f"bytes {_DATA}Bits", _b64(b"\x05"), "binary", "05", _BITS),
    Case(f"bytes {_DATA}Bits", _b64(b"\x05"), "string", REFUSED, _VARIABLE_BITS),
    Case(f"string {_DATA}Json", '{"a": 1}', "json", '{"a": 1}'),
    Case(f"string {_DATA}Xml", "<a/>", "string", "<a/>"),
    Case(f"string {_DATA}Uuid", _UUID, "uuid", _UUID),
    Case(f"string {_DATA}Enum", "red", "string", "red"),
    Case(f"string {_DATA}EnumSet", "red,blue", "string", "red,blue"),
    Case(f"string {_DATA}Ltree", "a.b", "string", "a.b"),
    Case(f"string {_DATA}TsVector", "'a':1", "string", "'a':1"),
    Case(f"struct {_DATA}geometry.Point", {"wkb": "AQE=", "x": 1.5}, "json", '{"wkb":"AQE=","x":1.5}', _POINT),
    Case(f"struct {_DATA}geometry.Geometry", {"srid": None, "wkb": "A="}, "json", '{"srid":null,"wkb":"A="}', _POINT),
    Case(f"array {_DATA}DoubleVector", [1.5, 2], "json", "[1.5,2]", {"items": {"type": "double"}}),
    Case("array", [1, None], "json", "[1,null]", {"items": {"type": "int32"}}),
    Case("array", [19_753, None], "json", '["2024-01-31",null]', _DAYS),
    Case("array", [_b64(b"\x00\x9c")], "json", '["1.56"]', _PRICES),
    Case("array", [1], "json", REFUSED, {"items": {"type": "int64", "name": f"{_TIME}MicroDuration"}}),
    Case("map", {"a": "b"}, "json", '{"a":"b"}', {"keys": {"type": "string"}, "values": {"type": "string"}}),
    Case("struct", {"made": 19_753}, "json", REFUSED, _ITEM),
    Case("string com.example.Masked", "a", "string", "a"),
    Case("int64 com.example.Ticks", 5, "bigint", REFUSED),
)
WITHOUT_SCHEMA = (
    Case("", 19_753, "date", "2024-01-31"),
    Case("", _MICROSECONDS, "timestamp", "2024-01-31 10:00:00.123456"),
    Case("", 0, "timestamp", "1970-01-01 00:00:00"),
    Case("", 1_706_695_200_000, "timestamp", REFUSED),
    Case("", -1_706_695_200_000, "timestamp", REFUSED),
    Case("", _MILLISECONDS * 1_000_000, "timestamp", REFUSED),
    Case("", _MILLISECONDS, "timestamp", "2024-01-31 10:00:00.123", options={"time_unit": "milliseconds"}),
    Case("", _MICROSECONDS, "timestamp", REFUSED, options={"time_unit": "milliseconds"}),
    Case("", _MICROSECONDS, "timestamp", REFUSED, options={"time_unit": "nanoseconds"}),
    Case("", _MILLISECONDS * 1_000_000, "timestamp", "2024-01-31 10:00:00.123", options={"time_unit": "nanoseconds"}),
    Case("", "2024-01-31T10:00:00Z", "timestamp", "2024-01-31 10:00:00"),
    Case("", 36_000_000_000, "time", REFUSED),
    Case("", 36_000_000_000, "time", "10:00:00", options={"time_unit": "c=microseconds"}),
    Case("", 1_706_695_200_000, "timestamp", "1970-01-20 18:04:55.2", options={"time_unit": "c=microseconds"}),
    Case("", "12.34", "decimal(10,2)", "12.34"),
    Case("", "AJw=", "decimal(10,2)", REFUSED),
    Case("", {"scale": 2, "value": "AJw="}, "decimal(10,2)", "1.56"),
    Case("", "aGVsbG8=", "binary", "68656C6C6F", options={"binary_values": "base64"}),
    Case("", "68656c6c", "binary", "68656C6C", options={"binary_values": "hex"}),
    Case("", "68656c6c", "binary", REFUSED),
    Case("", "aGVsbG8=", "binary", REFUSED),
)


def types_table() -> str:
    """Return the table for the documentation."""
    return markdown_table(HEAD, (case.line for case in (*WITH_SCHEMA, *WITHOUT_SCHEMA)))
