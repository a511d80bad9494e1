"""Tests of keeping deliveries in raw: modes, limits and the deliveries that a retention removes."""

from datetime import UTC, datetime, timedelta

import pytest

from elevata.core.errors import MetadataError
from metadata.domain.sources.raw_keeping import ALL, BY_DAY, LATEST, Keeping

NOW = datetime(2024, 2, 1, tzinfo=UTC)
FIVE = [(f"run-{age}", NOW - timedelta(days=age)) for age in (40, 30, 20, 10, 0)]


@pytest.mark.parametrize(
    ("keeping", "removed"),
    [
        (Keeping(ALL), []),
        (Keeping(ALL, days=20), ["run-30", "run-40"]),
        (Keeping(BY_DAY, deliveries=2), ["run-20", "run-30", "run-40"]),
        (Keeping(ALL, days=35, deliveries=3), ["run-30", "run-40"]),
        (Keeping(ALL, days=5, deliveries=4), ["run-10", "run-20", "run-30", "run-40"]),
    ],
)
def test_delivery_is_removed_if_it_exceeds_the_days_or_the_deliveries_limit(keeping: Keeping, removed: list[str]):
    assert sorted(keeping.outdated(FIVE, NOW)) == removed


def test_newest_delivery_is_kept_at_any_age():
    assert Keeping(ALL, days=1).outdated([("old", NOW - timedelta(days=90))], NOW) == ()


@pytest.mark.parametrize(
    ("keeping", "layer", "field"),
    [
        (Keeping("some"), "raw", "keep"),
        (Keeping(ALL), "rawcore", "keep"),
        (Keeping(LATEST, days=3), "raw", "keep_days"),
        (Keeping(LATEST, deliveries=3), "raw", "keep_deliveries"),
        (Keeping(ALL, days=0), "raw", "keep_days"),
    ],
)
def test_invalid_raw_keeping_is_refused_with_its_field(keeping: Keeping, layer: str, field: str):
    with pytest.raises(MetadataError) as caught:
        keeping.check(layer)
    assert caught.value.field == field


@pytest.mark.parametrize("layer", ["raw", "rawcore"])
def test_keeping_the_latest_delivery_is_allowed_in_any_layer(layer: str):
    Keeping().check(layer)
