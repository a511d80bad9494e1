"""Requests of copy runs: by hand, after a load, and after a failure."""

import logging
from collections.abc import Collection
from datetime import datetime
from itertools import takewhile
from typing import Any

from django.db.models import Max, QuerySet
from django.utils import timezone

from architecture.services.environments import current_environment
from elevata.jobs import states
from loader.contract.refusals import Refusal
from loader.contract.run_states import COPY
from loader.domain.copies import wait_after
from loader.domain.dependencies import is_loaded
from loader.models import LoadRun
from loader.selectors.copies import active_copies
from loader.services.loads.load_runs import Asked, RequestedRun, request_run
from loader.services.loads.plans import plan_named
from loader.services.maintenance.work import scope_of

log = logging.getLogger(__name__)
# Runs of a dataset that are counted: after so many failures in a row the wait is the longest.
_COUNTED_RUNS = 10
_FAILED = (states.FAILED, states.LOST)


def request_copy(
    *,
    dataset: str,
    check: bool = False,
    verify: bool = True,
    reason: str = "",
    user: Any = None,
    run_id: str | None = None,
    wake_worker: bool = True,
) -> RequestedRun:
    """Request a copy run of a dataset, or with ``check`` a comparison of its copies.

    With ``verify`` a target that has the present version is compared by its checksum. Raise Refusal NO_COPIES for a
    dataset without copies.
    """
    state = plan_named(dataset).steps[0].dataset
    if not is_loaded(state):
        raise Refusal("NOT_LOADED", f"{state.qualified_name} is not loaded by runs: it has no table of its own")
    wanted = Asked(
        kind=COPY,
        scope=scope_of(state.qualified_name),
        asked={"check": check, "verify": verify},
        check=lambda: _must_have_copies(state.qualified_name),
        reason=reason.strip(),
    )
    return request_run(wanted, user=user, run_id=run_id, wake_worker=wake_worker)


def request_copies_after(*, datasets: Collection[str], reason: str, wake_worker: bool = True) -> list[LoadRun]:
    """Request a copy run for each of these datasets, by stable key, that has copies and no queued copy run."""
    copied = active_copies().filter(dataset__key__among=datasets)
    return [
        request_copy(dataset=name, verify=False, reason=reason, wake_worker=wake_worker).run
        for name in _without_queued(sorted({str(copy.dataset) for copy in copied}))
    ]


def request_failed_copies(*, wake_worker: bool = True) -> list[LoadRun]:
    """Request the copy runs again whose last attempt failed or was lost, each after its wait."""
    rows = active_copies()
    names = sorted({str(copy.dataset) for copy in rows}) if rows.exists() else []
    failed = LoadRun.objects.filter(pk__in=_newest_runs(), status__in=_FAILED, scope__name__in=names)
    due = [name for name in sorted({run.scope["name"] for run in failed}) if _is_due(name)]
    requested = []
    for name in _without_queued(due):
        try:
            run = request_copy(dataset=name, verify=False, reason="after a failure", wake_worker=wake_worker).run
        except Refusal as refusal:  # the dataset cannot be copied any more; its page has the reason
            log.warning("the copies of %s are not made again: %s", name, refusal.one_line())
        else:
            requested.append(run)
    return requested


def _copy_runs() -> QuerySet[LoadRun]:
    """Return the copy runs of this environment without comparisons."""
    return LoadRun.objects.filter(kind=COPY, environment=current_environment(), details__asked__check=False)


def _newest_runs() -> QuerySet[Any, Any]:
    """Return the key of each dataset's newest copy run."""
    return _copy_runs().order_by().values("scope__name").annotate(newest=Max("pk")).values("newest")


def _is_due(name: str) -> bool:
    """Return True if the wait after the newest failures in a row of a dataset's copies is over."""
    newest = _copy_runs().filter(scope__name=name).order_by("-pk")[:_COUNTED_RUNS]
    failed = list(takewhile(lambda run: run.status in _FAILED, newest))
    if not failed:
        return False
    ended: datetime = failed[0].finished_at or failed[0].heartbeat_at or failed[0].queued_at
    return timezone.now() >= ended + wait_after(len(failed))


def _without_queued(names: Collection[str]) -> list[str]:
    """Return the datasets that no queued copy run waits for; one that runs may have read an older version."""
    queued = {run.scope["name"] for run in _copy_runs().filter(status=states.QUEUED)}
    return [name for name in names if name not in queued]


def _must_have_copies(name: str) -> None:
    schema, _, own = name.partition(".")
    if not active_copies().filter(dataset__schema__name=schema, dataset__name=own).exists():
        raise Refusal("NO_COPIES", f"{name} has no copies", hint="Add one on the dataset's page, or in its file.")
