"""Refreshes: jobs that observe tables for a report, a preview, drift, or a waiting command."""

from collections.abc import Callable, Collection
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from architecture.models import ChangeReport, Environment, Refresh
from architecture.permissions import must_be_permitted, must_build, place_of_report
from architecture.services.environments import current_environment
from architecture.services.observations import Observations, last_observations
from elevata.accounts.roles import Permission
from elevata.core.errors import ProductError
from elevata.core.registry import Provided
from elevata.jobs import states
from elevata.jobs.models import Job
from elevata.jobs.registry import live_workers
from elevata.jobs.services import withdraw
from elevata.jobs.submission import Submitted
from elevata.jobs.waiting import NoWorker, follow_job
from metadata.domain.scope import Scope
from metadata.permissions import here

_NOT_DONE = "the warehouse was not observed"


class CannotRefresh(ProductError):
    """Error raised when the warehouse cannot be observed now."""

    code = "cannot_refresh"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = " ".join(message.split())


def request_refresh(
    *,
    keys: Collection[str],
    purpose: str = Refresh.Purpose.OBSERVATION,
    scope: dict[str, Any] | None = None,
    report: ChangeReport | None = None,
    sizes: bool = False,
    user: Any = None,
    reason: str = "",
    wake_worker: bool = True,
) -> Submitted[Refresh]:
    """Submit a refresh of these tables. Then the worker creates the report or preview on behalf of the user.

    A report needs its ``scope``, a preview its ``report``. Raise Refused NOT_PERMITTED: a preview needs the permission
    to execute the report, a report a role for the environment or for all schemas of its scope, and any other refresh
    the permission to execute in the environment. The system (None) is always allowed.
    """
    if user is not None:
        _must_be_allowed(user, Scope.from_json(scope) if scope is not None else None, report)
    with transaction.atomic():
        refresh = Refresh.objects.create(
            environment=current_environment(),
            purpose=purpose,
            tables=sorted(keys),
            sizes=sizes,
            scope=scope,
            report=report,
            requested_by=user,
            reason=reason,
        )
        submitted = Submitted(refresh)
        if wake_worker:
            submitted.wake_after_commit()
    return submitted


def _must_be_allowed(user: Any, scope: Scope | None, report: ChangeReport | None) -> None:
    if scope is None:
        place = here if report is None else place_of_report(report)
        must_be_permitted(user, Permission.EXECUTE_REPORTS, on=place)
    else:
        must_build(user, scope, settings.ENVIRONMENT)


def refreshes_of(user: Any) -> QuerySet[Refresh]:
    """Return the refreshes that a user requested by page or REST."""
    return Refresh.objects.filter(requested_by=user).select_related("environment", "report", "preview")


def refresh_now(
    *, environment: Environment, keys: Collection[str], sizes: bool = False, local: bool | None = None
) -> Observations:
    """Observe tables, wait, and return the observations. Raise CannotRefresh if that fails.

    ``local``: True observes in this process, False by a worker, None by a worker if one is running.
    """
    if keys:
        observe(keys=keys, sizes=sizes, local=local)
    return last_observations(environment=environment)


# Function that performs a job in the calling process, without a worker; it returns why it cannot, or "".
LOCAL_WORKER: Provided[Callable[[int], str]] = Provided("LOCAL_WORKER")


def observe(*, keys: Collection[str], sizes: bool, local: bool | None) -> None:
    """Observe tables by a worker or in this process, and wait. Raise CannotRefresh."""
    here = not live_workers() if local is None else local
    submitted = request_refresh(keys=keys, sizes=sizes, wake_worker=not here)
    pk = submitted.job.pk
    problem = LOCAL_WORKER.get()(pk) if here else _no_worker(submitted)
    if problem:
        withdraw(Job.objects.filter(pk=pk), error={"code": "WITHDRAWN", "message": problem})
        raise CannotRefresh(problem)
    try:
        refresh = follow_job(Refresh.objects.get(pk=pk))
    except NoWorker as nobody:
        raise CannotRefresh(nobody.one_line()) from nobody
    if refresh.status != states.SUCCEEDED:
        raise CannotRefresh((refresh.error or {}).get("message") or _NOT_DONE)


def _no_worker(submitted: Submitted[Refresh]) -> str:
    """Return the reason why no worker will run the job; empty if one will."""
    if submitted.wakeup_sent is False:
        return f"the broker does not answer: {submitted.reason}"
    return "" if live_workers() else NoWorker().one_line()
