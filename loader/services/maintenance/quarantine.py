"""Decisions on quarantined rows: request and manifest."""

import re
from collections.abc import Sequence
from typing import Any

from elevata.core.database import retried
from loader.contract.manifest.maintenance import QuarantineManifest
from loader.contract.refusals import Refusal
from loader.contract.run_states import DECISIONS, QUARANTINE_DECISION, RELEASE
from loader.models import LoadRun
from loader.services.loads.load_runs import Asked, RequestedRun, request_run
from loader.services.loads.plans import plan_named
from loader.services.maintenance.work import RunWork, check_reason, loaded_dataset, scope_of
from loader.services.reads.read_permissions import SensitiveNames, entry_secret, sensitive_columns


def request_quarantine(
    *,
    dataset: str,
    decision: str,
    reason: str,
    entries: Sequence[str] = (),
    of_run: str = "",
    run_id: str | None = None,
    user: Any = None,
    wake_worker: bool = True,
) -> RequestedRun:
    """Request that waiting rows of a dataset's quarantine are released into the next load, or dropped.

    ``entries`` are their tokens, as a read of the quarantine shows them; without any, all waiting rows are meant, or
    those of the run ``of_run``.
    """
    check_reason(reason)
    state = loaded_dataset(dataset)
    if decision not in DECISIONS:
        raise Refusal("BAD_DECISION", f"{decision!r} is not one of {', '.join(DECISIONS)}")
    if not all(re.fullmatch(r"[0-9a-f]{64}", entry) for entry in entries):
        raise Refusal(
            "BAD_ENTRY", "an entry is 64 hexadecimal digits", hint="The quarantine of the dataset lists them."
        )
    if decision == RELEASE and state.layer == "raw":
        raise Refusal(
            "NOT_RELEASABLE",
            f"quarantined rows of {state.qualified_name} do not fit its contract, so they cannot be loaded as they are",
            hint="Correct the source, or the types of its columns, and load again; or drop the rows.",
        )
    if of_run and not LoadRun.objects.filter(run_id=of_run).exists():
        raise Refusal("UNKNOWN_RUN", f"there is no run {of_run}")
    asked = {"decision": decision, "entries": sorted(entries), "of_run": of_run}
    wanted = Asked(kind=QUARANTINE_DECISION, scope=scope_of(state.qualified_name), asked=asked, reason=reason.strip())
    return request_run(wanted, run_id=run_id, user=user, wake_worker=wake_worker)


def quarantine_manifest(work: RunWork) -> QuarantineManifest:
    asked, plan = work.run.details["asked"], retried(lambda: plan_named(work.run.scope["name"]))
    state = plan.steps[0].dataset
    work.attempt.prepare(steps=plan.steps, numbered=False)
    sensitive = retried(lambda: sensitive_columns([state]))
    return QuarantineManifest(
        run_id=work.run.run_id,
        dataset=state.key,
        name=state.qualified_name,
        decision=asked["decision"],
        entries=tuple(asked["entries"]),
        of_run=asked["of_run"],
        sensitive=tuple(sorted(sensitive.get(state.key, SensitiveNames()).names)),
        secret=entry_secret(),
    )
