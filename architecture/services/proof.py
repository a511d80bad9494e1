"""Signatures of stored rows, and records of executions in the audit chain.

Approvals never change, so they are links of the audit chain. Rows of reports, previews, executions and applied state
change: the columns on which decisions depend are signed with the audit key when they are stored.
"""

from collections.abc import Collection, Iterable
from importlib import metadata as packages
from itertools import islice
from typing import Any
from uuid import UUID

from django.db.models import Model, Q, QuerySet
from django.utils import timezone

from architecture.domain import artifacts
from architecture.domain.report import TARGET_ONLY, WITH_DEPENDENCIES
from architecture.domain.states.state_files import of_row
from architecture.domain.workflow import Refused
from architecture.models import (
    AppliedDataset,
    Approval,
    ChangeReport,
    Environment,
    Execution,
    ExecutionOperation,
    ExecutionRecord,
    KeptHistory,
    Preview,
)
from architecture.selectors.environments import applied_by_pk
from elevata.audit.domain import Problem, Signature
from elevata.audit.models import AppendOnly, ChainLink
from elevata.audit.services import chain
from elevata.audit.services.altered_rows import altered_rows
from elevata.audit.services.row_seals import UNKNOWN_KEY
from elevata.audit.services.signing import sign, signature_problem
from elevata.core.canonical_json import sha256_hex
from metadata.domain.state import DatasetState
from metadata.models import Exposure, QualityCheck, Reference, TargetColumn, TargetDataset, TargetSchema

_REPORT, _PREVIEW = "change-report", "preview"
# Purpose of the signature and signed columns: those on which decisions depend.
_SIGNATURES: dict[type[Model], tuple[str, tuple[str, ...]]] = {
    AppliedDataset: (
        "applied-dataset",
        ("environment_id", "dataset_key", "qualified_name", "table_versions", "execution_id", "through", "digest"),
    ),
    KeptHistory: ("kept-history", ("environment_id", "history_key", "state")),
    Execution: (
        "execution",
        ("id", "environment_id", "report_id", "preview_id", "requested_by_id", "requester", "command", "planned"),
    ),
}


def sign_report(report: ChangeReport) -> str:
    """Return the signature of a report's row."""
    return str(sign(_REPORT, _report_content(report)))


def sign_preview(report: ChangeReport, fingerprint: str) -> str:
    """Return the signature of a preview of this report."""
    return str(sign(_PREVIEW, _preview_content(report, fingerprint)))


def refuse_unproven(report: ChangeReport) -> None:
    """Raise Refused REPORT_UNPROVEN or APPROVAL_UNPROVEN if the product did not write the report or its decisions."""
    approvals = list(report.approvals.order_by("pk"))
    missing = {approval.pk for approval in approvals} - chain.proven(*approvals)
    for approval in approvals:
        if approval.pk in missing:
            message = f"the decision of {approval.person_name} does not match the audit chain"
            raise Refused("APPROVAL_UNPROVEN", message)
    if signature_problem(Signature.parse(report.signature), _REPORT, _report_content(report)):
        raise Refused("REPORT_UNPROVEN")


def refuse_unproven_preview(report: ChangeReport, preview: Preview) -> None:
    """Raise Refused PREVIEW_UNPROVEN unless the product wrote this preview, with these statements, for this report."""
    content = _preview_content(report, preview.fingerprint)
    if (
        signature_problem(Signature.parse(preview.signature), _PREVIEW, content)
        or sha256_hex(preview.document) != preview.fingerprint
        or preview.document["report"] != report.fingerprint
    ):
        raise Refused("PREVIEW_UNPROVEN")


# --- applied state and executions --------------------------------------------------------------


def signature_of(row: AppliedDataset | KeptHistory | Execution) -> str:
    """Return the signature of a row. For an execution it covers the id, so the row must be stored first."""
    purpose, columns = _SIGNATURES[type(row)]
    return str(sign(purpose, _columns(row, columns)))


def is_proven(row: AppliedDataset | KeptHistory | Execution) -> bool:
    """Return True if a row's signature matches. The state of an applied dataset is not checked if it is deferred."""
    purpose, columns = _SIGNATURES[type(row)]
    if signature_problem(Signature.parse(row.signature), purpose, _columns(row, columns)):
        return False
    if not isinstance(row, AppliedDataset) or "state" in row.get_deferred_fields():
        return True
    return sha256_hex(row.state) == row.digest


def proven_states(*, environment: Environment) -> tuple[DatasetState, ...]:
    """Return the applied states (flat), ordered by stable key.

    Raises Refused APPLIED_UNPROVEN for a row that was changed outside the product. A state in this process's cache is
    checked by its digest, without reading it again.
    """
    rows = AppliedDataset.objects.filter(environment=environment).order_by("dataset_key")
    parsed = applied_by_pk(rows)
    states = []
    for row in rows.defer("state"):
        state, digest = parsed.get(row.pk, (None, ""))
        if state is None or digest != row.digest or not is_proven(row):
            # The row may have been written between the two queries.
            current = AppliedDataset.objects.filter(pk=row.pk).first()
            if current is None:
                continue
            refuse_unproven_row(current)
            state = of_row(current.state)
        states.append(state)
    return tuple(states)


def proven_followed(*, environment: Environment, states: Iterable[DatasetState]) -> dict[str, DatasetState]:
    """Return the last logic of these datasets' retained histories, by the history's stable key.

    Raises Refused APPLIED_UNPROVEN for a row that was changed outside the product.
    """
    histories = {state.history_key for state in states} - {None}
    followed = {}
    for row in KeptHistory.objects.filter(environment=environment):
        if str(row.history_key) in histories:
            refuse_unproven_row(row)
            followed[str(row.history_key)] = of_row(row.state)
    return followed


def proven_marks(*, environment: Environment, keys: Collection[str]) -> dict[str, int]:
    """Return the marks of these datasets, without rows that were changed outside the product."""
    rows = AppliedDataset.objects.filter(environment=environment, dataset_key__among=keys).defer("state")
    return {str(row.dataset_key): row.through for row in rows if is_proven(row)}


def refuse_unproven_row(row: AppliedDataset | KeptHistory) -> None:
    """Raise Refused APPLIED_UNPROVEN unless the row's signature matches."""
    if not is_proven(row):
        raise Refused("APPLIED_UNPROVEN", f"{_describe(row)} was altered in the database")


def refuse_unproven_execution(execution: Execution) -> None:
    """Raise Refused EXECUTION_UNPROVEN unless the product created the execution, with this plan."""
    if not is_proven(execution):
        raise Refused("EXECUTION_UNPROVEN")


def sign_execution(execution: Execution) -> None:
    """Store the signature of an execution, including its plan."""
    execution.signature = signature_of(execution)
    rows = Execution.objects.filter(pk=execution.pk)
    rows.update(planned=execution.planned, signature=execution.signature)


def unproven_row() -> Problem | None:
    """Return the first row of applied state, retained histories and executions whose signature does not match."""
    for model, code in _CODES.items():
        rows: Iterable[Any] = model._default_manager.order_by("pk").iterator(chunk_size=200)
        for row in rows:
            if not is_proven(row):
                message = f"{_describe(row)} was altered in the database"
                return Problem(code, message, kind=_SIGNATURES[model][0], subject=row.pk)
    return None


_CODES: dict[type[Model], str] = {
    AppliedDataset: "applied_unproven",
    KeptHistory: "applied_unproven",
    Execution: "execution_unproven",
}


def _describe(row: AppliedDataset | KeptHistory | Execution) -> str:
    if isinstance(row, AppliedDataset):
        return f"what was applied of {row.qualified_name}"
    return f"the logic that history {row.history_key} followed" if isinstance(row, KeptHistory) else str(row)


def _columns(row: Model, names: Iterable[str]) -> dict[str, Any]:
    return {name: _canonical(getattr(row, name)) for name in names}


# --- metadata ------------------------------------------------------------------------------------

_DESIRED = (TargetSchema, TargetDataset, TargetColumn, Reference, QualityCheck, Exposure)
_NAMED = 5


def refuse_altered_metadata(datasets: QuerySet[TargetDataset] | None = None) -> None:
    """Raise Refused CHANGED_OUTSIDE if a row of target metadata, or of these datasets, does not match its seal.

    Nobody is the author of such a row, so its change cannot be approved.
    """
    within: dict[type[Model], QuerySet | None] = dict.fromkeys(_DESIRED)
    if datasets is not None:
        pks = list(datasets.order_by().values_list("pk", flat=True))
        own = TargetDataset.objects.filter(Q(pk__among=pks) | Q(history_of__pk__among=pks))
        columns = TargetColumn.objects.filter(dataset__pk__among=pks)
        within = {TargetDataset: own, TargetColumn: columns, Reference: Reference.objects.filter(child__pk__among=pks)}
        within |= {model: model.objects.filter(dataset__pk__among=pks) for model in (QualityCheck, Exposure)}
    altered = list(islice(altered_rows(within), _NAMED + 1))
    if altered:
        more = " and others" if len(altered) > _NAMED else ""
        is_key_missing = all(row.problem == UNKNOWN_KEY for row in altered)
        cause = "sealed with a key that is not listed" if is_key_missing else "changed outside of elevata"
        hint = "add the former audit key to ELEVATA_AUDIT_KEYS_FORMER" if is_key_missing else ""
        raise Refused("CHANGED_OUTSIDE", f"{cause}: {', '.join(row.name for row in altered[:_NAMED])}{more}", hint)


# --- contents ----------------------------------------------------------------------------------

# Columns set when or after a report is stored. The status is derived from decisions, which are links of the chain.
_NOT_SIGNED = frozenset({"id", "status", "superseded_by_id", "observed_at", "outdated", "created_at", "signature"})


def _report_content(report: ChangeReport) -> dict[str, Any]:
    """Return all columns except the excluded ones, so that a new column is signed by default."""
    columns = [field.attname for field in ChangeReport._meta.concrete_fields]
    return _columns(report, (name for name in columns if name not in _NOT_SIGNED))


def _canonical(value: Any) -> Any:
    """Return a value for canonical JSON; for a document, its digest."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, dict):
        return sha256_hex(value)
    return str(value) if isinstance(value, str) else value


def _preview_content(report: ChangeReport, fingerprint: str) -> dict[str, Any]:
    return {"report": str(report.report_id), "fingerprint": fingerprint}


# Records of executions, and their export with the proof that they are unchanged.


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
