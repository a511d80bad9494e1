"""Loads of small tables by one Spark job: the same tables as the general way makes, and when it is taken."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from loader.spark import datasets, small_loads
from tests.loader.harness import Dataset

pytestmark = pytest.mark.spark

COLUMNS = {
    "id": "integer",
    "part": "string(3)",
    "price": "decimal(10,2)",
    "weight": "float",
    "sold": "date",
    "seen": "timestamp",
    "live": "boolean",
    "many": "bigint",
    "code": "uuid",
}
UUID = "11111111-2222-3333-4444-555555555555"


def row(id_: int, **values: Any) -> dict[str, Any]:
    full = {
        "id": id_,
        "part": "a,b",
        "price": Decimal("1.50"),
        "weight": 0.1,
        "sold": date(2024, 1, 31),
        "seen": datetime(2024, 3, 31, 2, 30, 0, 123456, UTC),
        "live": True,
        "many": 2**40,
        "code": UUID,
    }
    return full | values


# Each delivery changes, closes, reopens and keeps rows; the last changes nothing.
DELIVERIES = [
    [row(1), row(2, part='"x"'), row(3, price=None, sold=None, seen=None)],
    [row(1, weight=float("inf")), row(3, price=None, sold=None, seen=None), row(4, part=None)],
    [row(1, weight=float("inf")), row(2, part="é~|"), row(4, part=None, live=False)],
    [row(1, weight=float("inf")), row(2, part="é~|"), row(4, part=None, live=False)],
]
KEYS = ("id", "part")


@pytest.fixture
def never_the_general_way(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def begin() -> None:
        def read(*_: Any, **__: Any) -> None:
            raise AssertionError("the general way was taken")

        monkeypatch.setattr(datasets, "read_delivery", read)
        monkeypatch.setattr(datasets, "typed_stage", read)

    return begin


def content(dataset: Dataset) -> dict[str, Any]:
    """Return all rows of the tables but clock times, and what their newest commits say."""
    tables = {spec.kind: (spec, dataset.table(spec)) for spec in dataset.tables()}
    found: dict[str, Any] = {}
    for kind, (spec, table) in tables.items():
        clock = {column.name for column in spec.columns if column.purpose in ("loaded_at", "closed_at")}
        rows = table.frame().drop(*clock).collect()
        found[kind] = sorted((repr(row) for row in rows), key=str)
        signed = table.newest_run_commit()
        found[f"{kind} commit"] = (signed.counts, signed.notes, signed.version, signed.foreign) if signed else None
        found[f"{kind} numbers"] = table.committed_sequence(spec.key)
    return found


def loads(dataset: Dataset, deliveries: list[list[dict[str, Any]]], **options: Any) -> list[dict[str, int]]:
    counts = []
    for day, rows in enumerate(deliveries, start=1):
        status, event = dataset.load(rows, at=f"2024-01-{day:02}T00:00:00Z", **options)
        assert status == "succeeded", event
        assert event["warnings"] == []
        counts.append(event["counts"])
    return counts


@pytest.mark.parametrize(
    ("name", "described"),
    [
        ("csv", {"format": "csv"}),
        ("parquet", {"format": "parquet", "policy": {"input": "delta", "open_end": "9999-12-31T00:00:00Z"}}),
        ("upserts", {"format": "csv", "historize": False}),
        ("dbt", {"format": "parquet", "policy": {"profile": "dbt", "track": ["price"], "untracked": "keep"}}),
    ],
)
def test_the_tables_are_those_of_the_general_way(
    spark, tmp_path: Path, name: str, described: dict[str, Any], never_the_general_way: Callable[[], None]
):
    described = {"columns": COLUMNS, "keys": KEYS[:1]} | described
    general = Dataset(spark, tmp_path / "general", name, **described)
    small = Dataset(spark, tmp_path / "small", name, **described)
    general.folder.mkdir()
    small.folder.mkdir()
    expected = loads(general, DELIVERIES, small_rows=0)
    never_the_general_way()
    assert loads(small, DELIVERIES) == expected
    assert content(small) == content(general)


