"""Drift page, and adoption of drift as baseline."""

from dataclasses import replace

import pytest
from django.test import Client

from architecture.models import AppliedDataset
from tests.architecture.world import World
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import downloaded, read, signed_in, words

pytestmark = pytest.mark.django_db


def test_drift_page_lists_differences(world: World, viewer: Client):
    assert "in sync" in words(read(viewer, "/drift/"))
    key = next(key for key, shape in world.warehouse.shapes.items() if not shape.qualified_name.endswith("_hist"))
    world.warehouse.rename_behind_your_back(key, "full_name", "long_name")
    world.warehouse.show()
    text = words(read(viewer, "/drift/?state=drifted"))
    assert "1 drifted" in text
    assert "column name rawcore.rc_crm_customer.full_name : full_name → long_name" in text


def test_drift_is_downloaded_with_the_differences_of_each_dataset(world: World, viewer: Client):
    key = next(key for key, shape in world.warehouse.shapes.items() if not shape.qualified_name.endswith("_hist"))
    world.warehouse.rename_behind_your_back(key, "full_name", "long_name")
    world.warehouse.show()
    difference = "rawcore.rc_crm_customer.full_name: column name, full_name → long_name"
    row = {"dataset": "rawcore.rc_crm_customer", "state": "drifted", "differences": difference, "reason": ""}
    assert downloaded(viewer, "/drift/?state=drifted&format=csv") == [row]


def test_adopting_drift_requires_a_reason_and_is_logged(world: World):
    key = next(key for key, shape in world.warehouse.shapes.items() if not shape.qualified_name.endswith("_hist"))
    shape = world.warehouse.shapes[key]
    columns = tuple(column for column in shape.columns if column.name != "balance")
    world.warehouse.shapes[key] = replace(shape, columns=columns)
    world.warehouse.show()
    olga = signed_in(world.operator)
    assert "Enter a reason." in html_of(olga.post("/drift/adopt/", {"dataset": key}))
    answer = olga.post("/drift/adopt/", {"dataset": key, "reason": "repaired by hand"}, follow=True)
    assert "Baseline adopted" in html_of(answer)
    state = AppliedDataset.objects.get(dataset_key=key).state
    assert "balance" not in [column["name"] for column in state["columns"] if column["active"]]
    assert "repaired by hand" in read(olga, "/changes/?kind=baseline")


def test_adopting_drift_requires_the_execute_permission(world: World):
    ada = signed_in(world.author)
    assert "Adopt chosen datasets" not in read(ada, "/drift/")
    assert ada.post("/drift/adopt/", {"reason": "because"}).status_code == 403


def test_drift_page_loads_a_long_comparison_separately(world: World, viewer: Client, monkeypatch):
    monkeypatch.setattr("architecture.views.drift.AT_ONCE", 0)
    first = read(viewer, "/drift/?state=in_sync")
    assert 'hx-get="/drift/?state=in_sync"' in first
    assert "rawcore.rc_crm_customer" not in first
    followed = html_of(viewer.get("/drift/?state=in_sync", headers={"HX-Request": "true"}))
    assert "rawcore.rc_crm_customer" in followed
    assert "rawcore.rc_crm_customer" in read(viewer, "/drift/?state=in_sync")
