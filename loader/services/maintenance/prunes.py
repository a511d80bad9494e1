"""Prunes of histories: request and manifest."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from architecture.domain.tables import event_log_table, history_table
from elevata.core.database import retried
from loader.contract.manifest.maintenance import PruneManifest
from loader.contract.refusals import Refusal
from loader.contract.run_states import PRUNE
from loader.models import LoadRun
from loader.services.loads.load_runs import Asked, RequestedRun, request_run
from loader.services.loads.manifests import maintenance_load
from loader.services.loads.plans import plan_one, plan_prunable
from loader.services.maintenance.work import RunWork, check_reason, prepare, scope_of
from loader.services.sources.specs import absolute_place
from metadata.domain.state import DatasetState
from metadata.domain.types import BIGINT, DATE, INTEGER, parse

_WHOLE_NUMBER = re.compile(r"-?[0-9]+")


def request_prune(
    *,
    dataset: str,
    reason: str,
    ended_before: str | None = None,
    older_than_days: int | None = None,
    archive: str | None = None,
    run_id: str | None = None,
    user: Any = None,
    wake_worker: bool = True,
) -> RequestedRun:
    """Request the removal of closed versions that ended before a date, or more than a number of days ago.

    Of an upsert of dated rows, the events are removed that only rows before that date could need.
    """
    check_reason(reason)
    state = plan_prunable(dataset).steps[0].dataset
    if archive and not state.historize:
        raise Refusal("NO_HISTORY", f"{state.qualified_name} keeps no versions that could be archived")
    before = _ended_before(state, ended_before, older_than_days)
    details = {"ended_before": before, "archive": absolute_place(archive) if archive else None}
    earlier = LoadRun.objects.filter(run_id=run_id, kind=PRUNE).first() if run_id else None
    if earlier is not None and older_than_days is not None:
        details["ended_before"] = earlier.details["asked"]["ended_before"]  # the days count back from the first request
    wanted = Asked(kind=PRUNE, scope=scope_of(state.qualified_name), asked=details, reason=reason.strip())
    return request_run(wanted, run_id=run_id, user=user, wake_worker=wake_worker)


def archive_place(dataset: str) -> str:
    """Return the default folder for a history's pruned versions, in the warehouse."""
    state = plan_one(dataset).steps[0].dataset
    return f"{settings.WAREHOUSE.rstrip('/')}/.archive/{state.history_key}"


def _ended_before(state: DatasetState, text: str | None, days: int | None) -> str:
    """Return the limit as text in the type of the versions' or events' times."""
    event_log = event_log_table(state)
    dated = event_log.column("event_at") if event_log else history_table(state).column("ended_at")
    type_ = parse(dated.type).name
    if (text is None) == (days is None):
        raise Refusal("NO_DATE", "give either a date or a number of days")
    if type_ in (BIGINT, INTEGER):
        if text is None or not _WHOLE_NUMBER.fullmatch(text.strip()):
            raise Refusal("BAD_DATE", f"versions of {state.qualified_name} are dated by a number: give a number")
        return str(int(text))
    now = timezone.now()
    if days is not None:
        if days < 0:
            raise Refusal("BAD_DATE", f"{days} days lie in the future")
        instant = now - timedelta(days=days)
    else:
        try:
            instant = datetime.fromisoformat(text or "")
        except ValueError:
            raise Refusal("BAD_DATE", f"{text!r} is no date like 2024-01-31") from None
        instant = instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
        if instant > now:
            raise Refusal("BAD_DATE", f"{text} lies in the future", hint="only the past can be pruned")
    limit: date = instant.date() if type_ == DATE else instant
    return limit.isoformat()


def prune_manifest(work: RunWork) -> PruneManifest:
    asked, (plan, rows) = work.run.details["asked"], prepare(work, plan_prunable)
    return PruneManifest(
        run_id=work.run.run_id,
        load=retried(lambda: maintenance_load(run=work.run, plan=plan, rows=rows)),
        ended_before=asked["ended_before"],
        archive=asked["archive"],
    )
