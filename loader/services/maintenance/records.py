"""Sealed records of maintenance runs: one for every ended attempt, in the hash chain beside execution records."""

from typing import Any

from django.utils import timezone

from architecture.domain import artifacts
from architecture.services.execution_records import link_of, software
from elevata.audit.services import chain
from elevata.core.canonical_json import sha256_hex
from loader.contract.run_states import MAINTENANCE
from loader.models import DatasetRun, LoadRun, MaintenanceRecord


def seal_end(*, run_pk: int, attempt: int) -> MaintenanceRecord | None:
    """Write the record of an attempt that just ended, once, in the caller's transaction.

    Return None for kinds of runs without records. A failed attempt is sealed, too: it may have committed before it
    failed.
    """
    run = LoadRun.objects.select_related("environment", "requested_by").get(pk=run_pk)
    if run.kind not in MAINTENANCE:
        return None
    existing = MaintenanceRecord.objects.filter(run=run, attempt=attempt).first()
    if existing is not None:
        return existing
    document = record_document(run, attempt)
    record = MaintenanceRecord.objects.create(
        run=run,
        attempt=attempt,
        document=document,
        digest=sha256_hex(document),
        outcome=run.status,
        created_at=timezone.now(),
    )
    chain.append(record)
    return record


def record_document(run: LoadRun, attempt: int) -> dict[str, Any]:
    """Return a record's document. Fractional numbers are texts, so that each has one spelling."""
    return {
        "format": artifacts.MAINTENANCE,
        "run": run.run_id,
        "kind": run.kind,
        "environment": run.environment.name,
        "attempt": attempt,
        "requested_by": run.who,
        "repeated_by": run.details.get("repeated_by"),
        "reason": run.reason,
        "scope": run.scope,
        "asked": run.details.get("asked", {}),
        "load_timestamp": _moment(run.load_timestamp),
        "software": software(),
        "datasets": [_dataset(row) for row in run.datasets.order_by("ordinal", "pk")],
        "tables": run.details.get("tables", {}),
        "commits": run.details.get("commits", {}),
        "execution": run.execution_id,
        "requested_at": _moment(run.requested_at),
        "started_at": _moment(run.started_at),
        "finished_at": _moment(run.finished_at),
        "seconds": None if run.seconds is None else f"{run.seconds:.3f}",
        "outcome": str(run.status),
        "error": run.error,
        "chain": chain.head().as_json(),
    }


def record_artifact(record: MaintenanceRecord) -> dict[str, Any]:
    """Return a record as a file that ``verify_artifact`` takes."""
    return {
        "format": artifacts.MAINTENANCE,
        "record": str(record.record_id),
        "document": record.document,
        "row": record.content(),
        "link": link_of(record),
        "chain": chain.head().as_json(),
    }


def _dataset(row: DatasetRun) -> dict[str, Any]:
    return {
        "dataset": row.qualified_name,
        "key": str(row.dataset_key),
        "sequence": row.sequence,
        "status": str(row.status),
        "counts": row.counts,
        "warnings": row.warnings,
        "error": row.error,
        "version_before": row.table_version_before,
        "version_after": row.table_version_after,
    }


def _moment(at: Any) -> str | None:
    return at.isoformat(timespec="microseconds") if at is not None else None
