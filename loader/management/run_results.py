"""Results of load runs as commands print them: a sentence, or JSON."""

from typing import Any

from elevata.core.words import counted
from loader.contract.refusals import Refusal
from loader.contract.run_states import LOAD
from loader.models import LoadRun


def ending(run: LoadRun) -> str:
    spent = f" in {run.seconds:.1f} s" if run.seconds is not None else ""
    label = "load run" if run.kind == LOAD else run.get_kind_display().lower()
    message = f"{label} {run.run_id} {run.status}{spent}"
    if run.error:
        message += f": {Refusal.from_json(run.error).one_line()}"
    aside = [(row, row.counts.get("quarantined", 0)) for row in run.datasets.all()]
    shown = [f"{counted(number, 'row')} of {row.qualified_name}" for row, number in aside if number]
    if shown:
        message += f"; quarantined: {', '.join(shown)}: decide on them with manage.py decide_quarantine"
    views = run.details.get("views", {})
    return message + "".join(f"\nview {name}: {outcome}" for name, outcome in views.items())


def described(run: LoadRun) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "kind": run.kind,
        "status": run.status,
        "scope": run.scope,
        "load_timestamp": run.load_timestamp.isoformat(),
        "attempt": run.attempt,
        "seconds": run.seconds,
        "requested_by": run.who,
        "reason": run.reason,
        "details": run.details,
        "error": run.error,
        "datasets": [
            {
                "dataset": row.qualified_name,
                "kind": row.kind,
                "status": row.status,
                "counts": row.counts,
                "window": row.window,
                "drift": row.drift,
                "warnings": row.warnings,
                "error": row.error,
                "skipped_because": row.skipped_because,
                "unchanged_since": row.unchanged_since,
                "seconds": row.seconds,
            }
            for row in run.datasets.order_by("ordinal")
        ],
    }
