"""Tests of the generation of all targets of a system."""

import pytest

from elevata.core.errors import MetadataError
from metadata.models import System, TargetDataset
from metadata.services.datasets.generation_preview import generate_system, preview_system
from tests.factories import SourceColumnFactory, SourceDatasetFactory, SystemFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def system() -> System:
    """Return a system with two sources with columns, and one without."""
    row = SystemFactory(short_name="shop")
    for name in ("orders", "customers"):
        SourceColumnFactory(dataset=SourceDatasetFactory(system=row, name=name), name="id", key_ordinal=1)
    SourceDatasetFactory(system=row, name="empty")
    return row


def fingerprints(system: System) -> dict:
    return {item.source.key: item.preview.fingerprint for item in preview_system(system) if item.preview is not None}


def test_a_preview_names_each_source_and_writes_nothing(system: System):
    preview = preview_system(system)
    assert [(item.source.name, bool(item.datasets), item.reason) for item in preview] == [
        ("orders", True, ""),
        ("customers", True, ""),
        ("empty", False, "Has no column to generate from."),
    ]
    assert not TargetDataset.objects.exists()


def test_system_generation_generates_what_was_previewed(system: System):
    generate_system(system=system, fingerprints=fingerprints(system))
    assert TargetDataset.objects.filter(schema__name="rawcore", history_of=None).count() == 2


def test_system_generation_refuses_a_source_changed_since_the_preview(system: System):
    previewed = fingerprints(system)
    SourceColumnFactory(dataset=system.datasets.get(name="customers"), name="later")
    with pytest.raises(MetadataError) as refused:
        generate_system(system=system, fingerprints=previewed)
    assert refused.value.code == "preview_changed"
    assert not TargetDataset.objects.exists()


def test_repeated_system_generation_changes_nothing(system: System):
    generate_system(system=system)
    assert not any(item.anything for item in preview_system(system))
