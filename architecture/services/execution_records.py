"""Records of executions, and their export with the proof that they are unchanged."""

from importlib import metadata as packages
from typing import Any

from django.utils import timezone

from architecture.domain import artifacts
from architecture.domain.scope import TARGET_ONLY, WITH_DEPENDENCIES
from architecture.models import (
    Approval,
    ChangeReport,
    Execution,
    ExecutionOperation,
    ExecutionRecord,
)
from elevata.audit.models import AppendOnly, ChainLink
from elevata.audit.services import chain
from elevata.core.canonical_json import sha256_hex

_SOFTWARE = ("Django", "pyspark", "delta-spark", "sqlglot")


def seal(execution: Execution) -> ExecutionRecord:
    """Write the execution's record in the caller's transaction, or return the existing one. It is linked later."""
    existing = ExecutionRecord.objects.filter(execution=execution).first()
    if existing is not None:
        return existing
    document = record_document(execution)
    record = ExecutionRecord.objects.create(
        execution=execution,
        environment=execution.environment,
        document=document,
        digest=sha256_hex(document),
        outcome=execution.status,
        created_at=timezone.now(),
    )
    chain.append(record)
    return record


def record_document(execution: Execution) -> dict[str, Any]:
    """Return a record's document. Fractional numbers are texts, which have a unique form."""
    report, preview = execution.report, execution.preview
    scope = (report.scope if report is not None else execution.planned.get("scope")) or {}
    target_only = scope.get("target_only") or scope.get("dependency_mode") == TARGET_ONLY
    return {
        "format": artifacts.RECORD,
        "execution": execution.pk,
        "environment": execution.environment.name,
        "scope": scope,
        "dependency_mode": TARGET_ONLY if target_only else WITH_DEPENDENCIES,
        "requested_by": execution.who,
        "reason": execution.reason,
        "command": execution.command,
        "software": {**software(), **execution.versions},
        "report": _report(execution),
        "undo": report.document.get("undo") if report is not None else None,
        "approvals": [approval.content() for approval in _approvals(report)],
        "preview": {"fingerprint": preview.fingerprint, "document": preview.document} if preview else None,
        "operations": [_operation(row) for row in execution.operations.order_by("ordinal")],
        "attempts": execution.attempt,
        "requested_at": _isoformat(execution.requested_at),
        "started_at": _isoformat(execution.started_at),
        "finished_at": _isoformat(execution.finished_at),
        "seconds": _seconds(execution.seconds),
        "outcome": str(execution.status),
        "error": execution.error,
        "chain": chain.head().as_json(),
    }


def software() -> dict[str, str]:
    """Return the installed versions of the software that executions use; empty for a package that is missing."""
    versions = {}
    for name in _SOFTWARE:
        try:
            versions[name] = packages.version(name)
        except packages.PackageNotFoundError:
            versions[name] = ""
    return versions


def record_artifact(record: ExecutionRecord) -> dict[str, Any]:
    """Return a record as a file for ``verify_artifact``."""
    return {
        "format": artifacts.RECORD,
        "record": str(record.record_id),
        "document": record.document,
        "row": record.content(),
        "link": link_of(record),
        "chain": chain.head().as_json(),
    }


def approval_artifact(report: ChangeReport) -> dict[str, Any]:
    """Return a report and its approvals as a file for ``verify_artifact``."""
    return {
        "format": artifacts.APPROVALS,
        "report": {
            "report_id": str(report.report_id),
            "fingerprint": report.fingerprint,
            "status": report.status,
            "content": report.content,
        },
        "approvals": [{"row": approval.content(), "link": link_of(approval)} for approval in _approvals(report)],
        "chain": chain.head().as_json(),
    }


def link_of(row: AppendOnly) -> dict[str, Any]:
    """Return the row's link in the chain, after linking all committed rows."""
    chain.seal(wait=True)
    return dict(vars(chain.link_of(ChainLink.objects.get(kind=chain.chain_of(type(row)).name, subject_id=row.pk))))


def _approvals(report: ChangeReport | None) -> list[Approval]:
    return [] if report is None else list(report.approvals.select_related("report").order_by("pk"))


def _report(execution: Execution) -> dict[str, Any] | None:
    report = execution.report
    if report is None:
        return execution.planned.get("report")
    return {"report_id": str(report.report_id), "fingerprint": report.fingerprint, "content": report.content}


def _operation(row: ExecutionOperation) -> dict[str, Any]:
    return {
        "ordinal": row.ordinal,
        "operation": row.operation,
        "op": row.op,
        "dataset": row.qualified_name,
        "table": str(row.table_key),
        "column": row.column_name,
        "statement": row.statement,
        "status": str(row.status),
        "attempt": row.attempt,
        "version_before": row.version_before,
        "version_after": row.version_after,
        "error": row.error,
        "seconds": _seconds(row.seconds),
    }


def _isoformat(at: Any) -> str | None:
    return at.isoformat(timespec="microseconds") if at is not None else None


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"
