"""Tests of the effect of data migrations of metadata on an existing installation."""

from importlib import import_module

import pytest
from django.apps import apps

from tests.factories import SourceDatasetFactory

pytestmark = pytest.mark.django_db


def test_migration_sets_quotes_inside_to_keep_for_existing_csv_sources():
    former = SourceDatasetFactory(name="former", format="csv", options={"delimiter": ";"})
    declared = SourceDatasetFactory(name="declared", format="csv", options={"quotes_inside": "refuse"})
    other = SourceDatasetFactory(name="other", format="jsonl", options={})
    import_module("metadata.migrations.0002_keep_quotes_inside").keep_quotes_inside(apps, None)
    for source in (former, declared, other):
        source.refresh_from_db()
    assert former.options == {"delimiter": ";", "quotes_inside": "keep"}
    assert (declared.options, other.options) == ({"quotes_inside": "refuse"}, {})
