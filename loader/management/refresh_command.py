"""Refreshes for architecture's commands: by a worker, or by this process."""

from collections.abc import Collection
from typing import Any

from architecture.services.states.observed_states import CannotLook
from elevata.jobs import states
from elevata.jobs.processes import process_name
from elevata.jobs.selectors import live_workers
from loader.domain.runs.refusals import Refusal
from loader.management.waiting import NoWorker, follow_read
from loader.models import ReadRequest
from loader.services.queries.reads import OBSERVE, perform_read, request_read, withdraw_read
from loader.services.runner.supervisor import Runner


def look(*, keys: Collection[str], sizes: bool, local: bool | None) -> None:
    """Refresh tables, and store the observations. Raise CannotLook with the reason if that fails."""
    arguments = {"tables": sorted(keys), "sizes": sizes}
    here = not live_workers().exists() if local is None else local
    try:
        read = _locally(arguments) if here else _in_worker(arguments)
    except (NoWorker, Refusal) as problem:
        raise CannotLook(problem.one_line()) from problem
    except OSError as problem:
        raise CannotLook(str(problem)) from problem
    if read.status != states.SUCCEEDED:
        said = Refusal.from_json(read.error).one_line() if read.error else "nobody looked at the warehouse"
        raise CannotLook(said)


def _in_worker(arguments: dict[str, Any]) -> ReadRequest:
    if not live_workers().exists():
        raise NoWorker
    asked = request_read(kind=OBSERVE, arguments=arguments)
    if asked.wakeup_sent is False:
        withdraw_read(read=asked.read)
        raise Refusal("BROKER_DOWN", f"the broker does not answer: {asked.reason}")
    return follow_read(asked.read)


def _locally(arguments: dict[str, Any]) -> ReadRequest:
    name = process_name()
    runner = Runner(holder=f"manage.py, {name}")
    try:
        runner.start()
        asked = request_read(kind=OBSERVE, arguments=arguments, wake_worker=False)
        perform_read(read_pk=asked.read.pk, worker=name, runner=runner)
    finally:
        runner.close()
    asked.read.refresh_from_db()
    return asked.read
