"""Sources of tests and the rows of their deliveries."""

import pytest

from loader.contract.manifest.sources import DeliveredColumn, SourceSpec
from loader.contract.refusals import Refusal
from loader.domain.sources.provenance import SOURCE_ROW
from loader.engine.sources.checks.rejections import REASONS, RECORD, RejectedRows
from loader.engine.sources.deliveries import read_delivery
from tests.fixtures.spark import held_in_memory

KEY = DeliveredColumn("k-id", "id", "string", nullable=False, business_key=True)
CONTRACT = (KEY, DeliveredColumn("k-name", "name", "string"), DeliveredColumn("k-n", "n", "integer"))


def source_of(location, columns=CONTRACT, format_name="csv", **options):
    return SourceSpec("src", str(location), format_name, tuple(columns), options)


def rows_of(spark, *args, **kwargs):
    """Return a delivery's rows as unordered tuples, and release it."""
    delivery = read_delivery(spark, source_of(*args, **kwargs))
    rows = sorted((tuple(row) for row in delivery.frame.collect()), key=repr)
    assert len(rows) == delivery.rows - delivery.duplicates
    delivery.release()
    return rows


def refused(spark, *args, **kwargs) -> Refusal:
    with pytest.raises(Refusal) as caught:
        read_delivery(spark, source_of(*args, **kwargs))
    refusal = caught.value
    assert refusal.hint
    assert len(refusal.samples) <= 5
    assert not held_in_memory(spark), "a refused delivery gives its memory back"
    return refusal


def tuples_of(rejected: RejectedRows) -> list[tuple]:
    rows = rejected.rows.select(SOURCE_ROW, REASONS, RECORD, "id", "n").collect()
    return [tuple(row) for row in rows]
