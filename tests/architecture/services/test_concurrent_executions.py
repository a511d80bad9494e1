"""Concurrent requests and claims: an execution is created once and runs once."""

import pytest

from architecture.models import Execution
from architecture.services.executions import claim_execution
from tests.architecture.executions import ask, run_concurrently
from tests.architecture.world import customers, make_world


@pytest.mark.services
@pytest.mark.django_db(transaction=True)
def test_concurrent_requests_create_one_execution():
    world = make_world()
    customers(world.author)
    preview = world.previewed()
    answers = run_concurrently(*(lambda: ask(world, preview.report) for _ in range(4)))
    assert len({answer.execution.pk for answer in answers}) == 1
    assert sorted(answer.requested for answer in answers) == [False, False, False, True]
    assert Execution.objects.count() == 1


@pytest.mark.services
@pytest.mark.django_db(transaction=True)
def test_two_workers_with_the_same_message_claim_once():
    world = make_world()
    customers(world.author)
    execution = world.queued()
    names = [f"w{number}" for number in range(4)]
    claimed = run_concurrently(
        *(lambda name=name: claim_execution(execution_pk=execution.pk, worker=name) for name in names)
    )
    assert len([claim for claim in claimed if claim is not None]) == 1
