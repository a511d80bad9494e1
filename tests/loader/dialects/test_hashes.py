"""Hashes of every type: the expressions of executed dialects against the product's encoding."""

import random
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import pytest

from loader.dialects.catalog import DIALECTS
from loader.dialects.hashing import digest
from loader.dialects.refusals import NotRendered
from loader.domain.historization import hashing
from loader.domain.historization.compared_texts import ComparedText
from metadata.domain.types import parse
from tests.fixtures.spark import by_night
from tests.loader.dialects.engines import ENGINES, connection_to

TYPES = {
    "s": "string",
    "n": "string(40)",
    "i": "integer",
    "b": "bigint",
    "d": "decimal(18,4)",
    "e": "decimal(38,0)",
    "g": "decimal(4,4)",
    "h": "decimal(38,38)",
    "f": "float",
    "o": "boolean",
    "a": "date",
    "t": "timestamp",
    "x": "binary",
    "u": "uuid",
    "c": "time",
}
ODD_FLOATS = [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 5e-324, -2.2e-308, 2.0**60, 2.0**53, 0.1]
ODD_TEXTS = ["", "|", "~", "\\", "\\|~", "a|b~c\\", "Zürich", "日本", "🛫", " x ", "it's", "NULL", "a\nb", "%s {}"]
CLOCKS = ["10:00", "10:00:00", "10:00:30.5", "10:00:30.500000", "23:59:59.999999", "00:00:00.000000"]


def random_row(source: random.Random) -> dict:
    """Return a row with a value of every type; a tenth of the values are NULL."""
    micros = source.randrange(-62_135_596_800_000_000, 253_402_300_799_999_999)
    row = {
        "s": source.choice(ODD_TEXTS) + source.choice(ODD_TEXTS),
        "n": source.choice(ODD_TEXTS),
        "i": source.choice([0, -1, 2**31 - 1, -(2**31), source.randrange(10**6)]),
        "b": source.choice([0, 2**63 - 1, -(2**63), source.randrange(10**15)]),
        "d": Decimal(source.randrange(-(10**17), 10**17)).scaleb(-4) if source.random() < 0.8 else Decimal("100.0000"),
        "e": Decimal(source.randrange(-(10**37), 10**37)) if source.random() < 0.8 else Decimal(0),
        "g": Decimal(source.choice([0, 1, -1, 5000, -1200, source.randrange(-9999, 10000)])).scaleb(-4),
        "h": Decimal(source.choice([0, 1, -(10**37), source.randrange(-(10**38) + 1, 10**38)])).scaleb(-38),
        "f": source.choice([*ODD_FLOATS, struct.unpack("<d", source.randbytes(8))[0], source.randrange(10**9) / 8]),
        "o": source.random() < 0.5,
        "a": date.fromordinal(source.randrange(1, 3652060)),
        "t": datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros),
        "x": source.randbytes(source.randrange(6)),
        "u": ComparedText.of(source.choice([str.upper, str.lower])(str(UUID(bytes=source.randbytes(16)))), "uuid"),
        "c": ComparedText.of(source.choice(CLOCKS), "time"),
    }
    return {name: None if source.random() < 0.1 else value for name, value in row.items()}


@pytest.mark.parametrize("count", [3000, by_night(100_000)])
@pytest.mark.parametrize("engine", ENGINES)
def test_hashes_equal_the_product_for_random_rows_of_every_type(engine, count):
    connection, dialect, source = connection_to(engine), DIALECTS[engine], random.Random(20260712)
    rows = [random_row(source) for _ in range(count)]
    connection.run(dialect.create_schema("hashes"))
    connection.run("DROP TABLE IF EXISTS hashes.r")
    connection.run(dialect.create_table("hashes.r", [("place", "integer"), *TYPES.items()]))
    plain = [[place, *(str(v) if isinstance(v, str) else v for v in row.values())] for place, row in enumerate(rows)]
    connection.insert("hashes.r", [dialect.identifier(name) for name in ("place", *TYPES)], plain)
    parts = [(f"key|{name}", dialect.identifier(name), parse(type_)) for name, type_ in TYPES.items()]
    selected = dict(connection.rows(f"SELECT place, {digest(dialect, parts)} FROM hashes.r"))
    expected = {place: hashing.digest([(f"key|{name}", row[name]) for name in TYPES]) for place, row in enumerate(rows)}
    different = [place for place in expected if selected[place] != expected[place]]
    assert [rows[place] for place in different[:3]] == []


@pytest.mark.parametrize("name", DIALECTS)
def test_json_is_not_hashed(name):
    with pytest.raises(NotRendered, match="json"):
        digest(DIALECTS[name], [("k", "j", parse("json"))])


@pytest.mark.parametrize("name", ["bigquery", "snowflake"])
def test_float_is_not_hashed_where_no_function_writes_it(name):
    with pytest.raises(NotRendered, match="float"):
        digest(DIALECTS[name], [("k", "f", parse("float"))])
