"""Fixtures: the generated target datasets of the airport source."""

import pytest

from metadata.models import TargetDataset
from metadata.services.generation import generate_targets
from tests.factories import (
    airport_source,
)


@pytest.fixture
def rawcore() -> TargetDataset:
    generate_targets(source_dataset=airport_source())
    return TargetDataset.objects.get(name="rc_air_airport")


@pytest.fixture
def stage(rawcore: TargetDataset) -> TargetDataset:
    return TargetDataset.objects.get(name="stg_air_airport")
