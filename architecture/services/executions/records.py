"""Sealing what an execution did, and exporting it with the proof that it was not changed since."""

from importlib import metadata as packages
from typing import Any

from django.utils import timezone

from architecture.domain.reports import artifacts
from architecture.domain.reports.scope import TARGET_ONLY, WITH_DEPENDENCIES
from architecture.models import Approval, ChangeReport, Execution, ExecutionOperation, ExecutionRecord
from elevata.core.canonical_json import sha256_hex
from metadata.models import AppendOnly, ChainLink
from metadata.services import chain

_SOFTWARE = ("Django", "pyspark", "delta-spark", "sqlglot")


def seal(execution: Execution) -> ExecutionRecord:
    """Write the execution's record, once, in the caller's transaction; the chain links it after commit."""
    known = ExecutionRecord.objects.filter(execution=execution).first()
    if known is not None:
        return known
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
    """Return a record's document. Numbers with fractions are texts: they have one spelling then."""
    report, preview = execution.report, execution.preview
    scope = (report.scope if report is not None else execution.planned.get("scope")) or {}
    alone = scope.get("target_only") or scope.get("dependency_mode") == TARGET_ONLY
    return {
        "format": artifacts.RECORD,
        "execution": execution.pk,
        "environment": execution.environment.name,
        "scope": scope,
        "dependency_mode": TARGET_ONLY if alone else WITH_DEPENDENCIES,
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
        "requested_at": _moment(execution.requested_at),
        "started_at": _moment(execution.started_at),
        "finished_at": _moment(execution.finished_at),
        "seconds": _seconds(execution.seconds),
        "outcome": str(execution.status),
        "error": execution.error,
        "chain": chain.head().as_json(),
    }


def software() -> dict[str, str]:
    """The releases of what the execution ran on, as far as they are installed here."""
    found = {}
    for name in _SOFTWARE:
        try:
            found[name] = packages.version(name)
        except packages.PackageNotFoundError:
            found[name] = ""
    return found


def record_artifact(record: ExecutionRecord) -> dict[str, Any]:
    """A record as a file that ``verify_artifact`` takes."""
    return {
        "format": artifacts.RECORD,
        "record": str(record.record_id),
        "document": record.document,
        "row": record.content(),
        "link": link_of(record),
        "chain": chain.head().as_json(),
    }


def approval_artifact(report: ChangeReport) -> dict[str, Any]:
    """A report and what people decided on it as a file that ``verify_artifact`` takes."""
    return {
        "format": artifacts.APPROVALS,
        "report": {
            "report_id": str(report.report_id),
            "fingerprint": report.fingerprint,
            "status": report.status,
            "content": report.content,
        },
        "approvals": [{"row": one.content(), "link": link_of(one)} for one in _approvals(report)],
        "chain": chain.head().as_json(),
    }


def link_of(row: AppendOnly) -> dict[str, Any]:
    """The row's link in the chain. A row that was committed a moment ago is linked first."""
    chain.seal(wait=True)
    return dict(vars(chain.link_of(ChainLink.objects.get(kind=row.CHAIN.name, subject_id=row.pk))))


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


def _moment(at: Any) -> str | None:
    return at.isoformat(timespec="microseconds") if at is not None else None


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"
