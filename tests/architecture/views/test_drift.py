"""Drift on its page, and what is there adopted as the baseline."""

from dataclasses import replace

import pytest
from django.test import Client

from architecture.models import AppliedDataset
from tests.architecture.world import World
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read, signed_in, words

pytestmark = pytest.mark.django_db


def test_drift_names_what_differs(world: World, viewer: Client):
    assert "in sync" in words(read(viewer, "/drift/"))
    key = next(key for key, shape in world.warehouse.shapes.items() if not shape.qualified_name.endswith("_hist"))
    world.warehouse.rename_behind_your_back(key, "full_name", "long_name")
    world.warehouse.show()
    text = words(read(viewer, "/drift/?state=drifted"))
    assert "1 drifted" in text
    assert "column name rawcore.rc_crm_customer.full_name : full_name → long_name" in text


def test_what_is_there_is_adopted_with_a_reason(world: World):
    key = next(key for key, shape in world.warehouse.shapes.items() if not shape.qualified_name.endswith("_hist"))
    shape = world.warehouse.shapes[key]
    columns = tuple(one for one in shape.columns if one.name != "balance")
    world.warehouse.shapes[key] = replace(shape, columns=columns)
    world.warehouse.show()
    olga = signed_in(world.operator)
    assert "Enter a reason." in html_of(olga.post("/drift/adopt/", {"dataset": key}))
    answer = olga.post("/drift/adopt/", {"dataset": key, "reason": "repaired by hand"}, follow=True)
    assert "Baseline adopted" in html_of(answer)
    state = AppliedDataset.objects.get(dataset_key=key).state
    assert "balance" not in [column["name"] for column in state["columns"] if column["active"]]
    assert "repaired by hand" in read(olga, "/changes/?kind=baseline")


def test_who_may_not_execute_cannot_adopt(world: World):
    ada = signed_in(world.author)
    assert "Adopt chosen datasets" not in read(ada, "/drift/")
    assert ada.post("/drift/adopt/", {"reason": "because"}).status_code == 403


def test_where_much_has_to_be_compared_the_page_comes_first(world: World, viewer: Client, monkeypatch):
    monkeypatch.setattr("architecture.views.drift.AT_ONCE", 0)
    first = read(viewer, "/drift/?state=in_sync")
    assert 'hx-get="/drift/?state=in_sync"' in first
    assert "rawcore.rc_crm_customer" not in first
    followed = html_of(viewer.get("/drift/?state=in_sync", headers={"HX-Request": "true"}))
    assert "rawcore.rc_crm_customer" in followed
    assert "rawcore.rc_crm_customer" in read(viewer, "/drift/?state=in_sync")
