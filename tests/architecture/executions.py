"""Helpers for executions: request, loss of the worker, and concurrent calls."""

import threading

import pytest
from django.db import connection

from architecture.domain.refusals import Refused
from architecture.domain.steps.step import StepProblem
from architecture.models import ChangeReport, Execution
from architecture.services.executions import Requested, request_execution
from elevata.accounts.actors import acting_as
from elevata.jobs.services import mark_lost
from metadata.models import TargetColumn, TargetDataset
from metadata.services.datasets.targets import update_target_column
from tests.architecture.world import World


def customer() -> TargetDataset:
    return TargetDataset.objects.get(name="rc_crm_customer")


def code_of(call, **arguments: object) -> str:
    """Return the code with which a call is refused."""
    with pytest.raises((Refused, StepProblem)) as refused:
        call(**arguments)
    return refused.value.code


def ask(world: World, report: ChangeReport, by=None) -> Requested:
    return request_execution(report=report, user=by or world.operator)


def needing_approval(world: World) -> ChangeReport:
    """Return a report that needs one approval, because a column becomes not null."""
    column = TargetColumn.objects.get(name="full_name")
    with acting_as(world.author):
        update_target_column(column=column, expected_version=column.version, nullable=False)
    return world.report()


def lose(execution: Execution) -> None:
    """Mark an execution as lost after a heartbeat of years ago."""
    Execution.objects.filter(pk=execution.pk).update(heartbeat_at="2020-01-01T00:00:00Z")
    assert [job.pk for job in mark_lost()] == [execution.pk]


def run_concurrently(*functions):
    """Run functions concurrently, each with its own connection, and return their results."""
    results, barrier = [None] * len(functions), threading.Barrier(len(functions))

    def call(place, function):
        try:
            barrier.wait(10)
            results[place] = function()
        finally:
            connection.close()

    threads = [threading.Thread(target=call, args=item) for item in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return results
