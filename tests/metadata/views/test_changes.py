"""Tests of the change log's page: search by current and former names, and changes by field."""

import pytest
from django.test import Client

from elevata.accounts.actors import acting_as
from metadata.models import TargetColumn
from metadata.services.datasets.targets import create_target_column
from metadata.services.lifecycle import rename_dataset, retire_column
from tests.architecture.world import World
from tests.elevata.web.pages import change, read, rename, words

pytestmark = pytest.mark.django_db


def test_change_log_is_found_by_former_names(viewer: Client, world: World):
    dataset = TargetColumn.objects.get(name="full_name").dataset
    with acting_as(world.author):
        rename_dataset(dataset=dataset, name="rc_crm_client", expected_version=dataset.version)
    rename(world, "full_name", "display_name")
    for query in ("dataset=rawcore.rc_crm_customer", "dataset=crm_customer", "q=full_name"):
        assert "rawcore.rc_crm_client.display_name" in read(viewer, f"/changes/?{query}"), query


def test_change_log_is_filtered_by_actor_kind_and_day(viewer: Client, world: World):
    rename(world, "full_name", "display_name")
    assert "display_name" in words(read(viewer, "/changes/?actor=ada&kind=column"))
    assert "No entries match" in read(viewer, "/changes/?actor=bob&kind=column")
    assert "No entries match" in read(viewer, "/changes/?until=2001-01-01")
    assert "Enter a valid date" in read(viewer, "/changes/?since=yesterday")


def test_change_log_shows_fields_before_and_after(viewer: Client, world: World):
    with acting_as(world.author):
        create_target_column(
            dataset=TargetColumn.objects.get(name="full_name").dataset, name="note", type="string", inputs=[]
        )
        column = TargetColumn.objects.get(name="note")
        retire_column(column=column, expected_version=column.version)
    change(world, "full_name", description="<b>who</b>")
    text = read(viewer, "/changes/?actor=ada")
    assert "<ins>&lt;b&gt;who&lt;/b&gt;</ins>" in text
    assert "active yes → no" in words(text)
