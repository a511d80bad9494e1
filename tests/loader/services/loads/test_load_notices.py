"""Notices about failed load runs, and their settlement."""

from typing import Any

import pytest
from django.db import transaction

from elevata.accounts.roles import Role
from elevata.notifications.models import Event, Notice
from loader.models import LoadRun
from loader.services.loads.notices import tell_run_ended
from tests.architecture.world import person
from tests.loader.factories import LoadRunFactory

pytestmark = pytest.mark.django_db

ONE = {"kind": "dataset", "name": "rawcore.rc_a", "target_only": False}
OTHER = {"kind": "dataset", "name": "rawcore.rc_b", "target_only": False}


@pytest.fixture(autouse=True)
def olga(db: None) -> None:
    person("olga", Role.OPERATOR)


def ended_run(**fields: Any) -> LoadRun:
    run = LoadRunFactory(**fields)
    with transaction.atomic():
        tell_run_ended(run.pk)
    return run


def failed_run(**fields: Any) -> LoadRun:
    return ended_run(status="failed", error={"code": "X", "message": "1 dataset failed"}, **fields)


def unread() -> list[str]:
    rows = Notice.objects.filter(event__kind="load.failed", read_at__isnull=True)
    return sorted(rows.values_list("event__subject_key", flat=True))


def test_a_failure_is_settled_by_a_load_of_the_same_scope():
    run, other = failed_run(scope=ONE), failed_run(scope=OTHER)
    assert unread() == sorted([run.run_id, other.run_id])
    ended_run(scope=ONE)
    assert unread() == [other.run_id]


def test_failures_of_loads_are_settled_by_a_load_of_everything():
    failed_run(scope=ONE)
    revert = failed_run(kind="revert", scope=ONE)
    ended_run()
    assert unread() == [revert.run_id]


def test_load_failure_event_contains_no_value_of_a_column():
    error = {"code": "CAST_FAILS", "message": "3 values", "column": "name", "samples": ["id=Zebedee"]}
    ended_run(status="failed", error=error)
    assert "Zebedee" not in Event.objects.get(kind="load.failed").title
