"""Errors with which load runs end."""

from collections.abc import Mapping
from dataclasses import replace

from architecture.services.report_basis import table_keys
from elevata.core.database import retried
from elevata.core.words import counted
from loader.contract.refusals import Refusal
from loader.domain.queries.masking import without_any_value
from loader.models import DatasetRun, LoadRun
from loader.services.loads.plans import LoadPlan
from metadata.domain.scope import Scope

_SHOWN = 5


def refusals_of_datasets(plan: LoadPlan, unreadable: Mapping[str, Refusal]) -> dict[str, Refusal]:
    """Return the refusals of the datasets with unreadable tables, by dataset."""
    refusals = {}
    for key in plan.described:
        state = plan.states[key]
        refusal = next((unreadable[table] for table in sorted(table_keys((state,))) if table in unreadable), None)
        if refusal is not None:
            refusals[key] = replace(refusal, message=f"{state.qualified_name}: {refusal.message}")
    return refusals


def tables_missing(names: list[str]) -> Refusal:
    return Refusal(
        "TABLES_MISSING",
        f"the warehouse has no table of {', '.join(names[:_SHOWN])}"
        + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        + ", to which runs were applied",
        hint="Bring the warehouse back (its mount, its folder, a backup), then run again under the same id. If "
        "the tables are gone for good, make a report and execute it: it creates them anew.",
        count=len(names),
        samples=tuple(names[_SHOWN : 2 * _SHOWN]),
    )


def datasets_failed(run: LoadRun) -> dict:
    """Return the run's error: the errors of its datasets on one line."""
    rows = list(retried(lambda: list(run.datasets.order_by("ordinal"))))
    failed = [row for row in rows if row.status == DatasetRun.Status.FAILED]
    skipped = sum(row.status == DatasetRun.Status.SKIPPED for row in rows)
    if not failed:
        return Refusal("LOAD_FAILED", "the runner ended the load without saying why").as_json()
    message = "; ".join(without_any_value(row.error) if row.error else str(row) for row in failed[:_SHOWN])
    more = f" and {len(failed) - _SHOWN} more" if len(failed) > _SHOWN else ""
    counted = f"{len(failed)} of {len(rows)} datasets failed" + (f", {skipped} skipped" if skipped else "")
    return {"code": "DATASETS_FAILED", "message": f"{counted}: {message}{more}", "count": len(failed)}


def decision_needed(needing: tuple[str, ...], run: LoadRun) -> Refusal:
    return Refusal(
        "BLOCKED",
        f"{counted(len(needing), 'pending change needs', 'pending changes need')} a person: "
        + "; ".join(needing[:_SHOWN]),
        hint=f"create a change report of {Scope.from_json(run.scope)}, have it approved, execute it, then load again",
        count=len(needing),
        samples=needing[_SHOWN : 2 * _SHOWN],
    )
