"""An environment's policy on its page: read by everybody, changed by few."""

import re

import pytest
from django.test import Client

from tests.architecture.world import World
from tests.web.controlling import read, words

pytestmark = pytest.mark.django_db


def posted(page: str) -> dict[str, str]:
    """A policy form as a browser would send it unchanged."""
    chosen = dict(re.findall(r'name="((?:count_|version)\w*)"[^>]*value="(\d+)"', page))
    chosen |= {"version": re.search(r'name="version" value="(\d+)"', page)[1]}
    for name, options in re.findall(r'<select[^>]*name="(\w+)"[^>]*>(.*?)</select>', page, re.DOTALL):
        chosen[name] = re.search(r'value="(\w*)" selected', options)[1]
    for name in re.findall(r'type="checkbox" name="(\w+)" checked', page):
        chosen[name] = "on"
    for risk in ("safe", "review", "destructive"):
        chosen[f"count_{risk}"] = re.search(rf'name="count_{risk}"[^>]*value="(\d)"', page)[1]
    return chosen


def test_a_policy_is_changed_and_stands_in_the_change_log(operator: Client, world: World):
    given = posted(read(operator, "/policies/dev/")) | {
        "severity_DROP_COLUMN": "needs_approval",
        "count_destructive": "2",
        "role_destructive": "admin",
    }
    del given["approver_may_execute"]
    page = words(operator.post("/policies/dev/", given, follow=True).content.decode())
    assert world.environment.policies == {
        "severities": {"DROP_COLUMN": "needs_approval"},
        "approvals": {"destructive": {"count": 2, "role": "admin"}},
        "approver_may_execute": False,
    }
    assert "eve policy policy of dev changed" in page
    assert "severities.DROP COLUMN block → needs_approval" in page
    operator.post("/policies/dev/", posted(read(operator, "/policies/dev/")) | {"defaults": "yes"})
    assert world.environment.policies == {}


def test_a_policy_that_somebody_else_changed_meanwhile_is_not_overwritten(operator: Client, world: World):
    given = posted(read(operator, "/policies/dev/"))
    operator.post("/policies/dev/", given | {"severity_ADD_COLUMN": "block"})
    answer = operator.post("/policies/dev/", given)
    assert answer.status_code == 409
    assert "POLICY_CHANGED" in answer.content.decode()
    assert world.environment.policies == {"severities": {"ADD_COLUMN": "block"}}


def test_a_policy_that_makes_no_sense_is_said_at_its_field(operator: Client, world: World):
    given = posted(read(operator, "/policies/dev/")) | {"count_safe": "10"}
    answer = operator.post("/policies/dev/", given)
    assert answer.status_code == 422
    assert "less than or equal to 9" in answer.content.decode()


def test_a_policy_is_read_by_everybody_and_changed_by_few(viewer: Client, world: World):
    page = read(viewer, "/policies/dev/")
    assert "<fieldset disabled>" in page
    assert viewer.post("/policies/dev/", posted(page)).status_code == 403
    assert viewer.get("/policies/nowhere/").status_code == 404
