"""Signatures of stored rows.

Approvals never change, so they are links of the audit chain. Rows of reports, previews, executions and applied state
change: the columns on which decisions depend are signed with the audit key when they are stored.
"""

from collections.abc import Collection, Iterable
from itertools import islice
from typing import Any
from uuid import UUID

from django.db.models import Model, Q, QuerySet

from architecture.domain.refusals import Refused
from architecture.domain.states.flat_states import of_row
from architecture.models import (
    AppliedDataset,
    ChangeReport,
    Environment,
    Execution,
    KeptHistory,
    Preview,
)
from architecture.selectors.dataset_states import applied_by_pk
from elevata.audit.hash_chain import Problem
from elevata.audit.services import chain
from elevata.audit.services.altered_rows import altered_rows
from elevata.audit.services.row_seals import UNKNOWN_KEY
from elevata.audit.services.signing import sign, signature_problem
from elevata.audit.signatures import Signature
from elevata.core.canonical_json import sha256_hex
from metadata.domain.state import DatasetState
from metadata.models import DatasetCopy, Exposure, QualityCheck, Reference, TargetColumn, TargetDataset, TargetSchema

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


_DESIRED = (TargetSchema, TargetDataset, TargetColumn, Reference, QualityCheck, Exposure, DatasetCopy)
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
        parts = (QualityCheck, Exposure, DatasetCopy)
        within |= {model: model.objects.filter(dataset__pk__among=pks) for model in parts}
    altered = list(islice(altered_rows(within), _NAMED + 1))
    if altered:
        more = " and others" if len(altered) > _NAMED else ""
        is_key_missing = all(row.problem == UNKNOWN_KEY for row in altered)
        cause = "sealed with a key that is not listed" if is_key_missing else "changed outside of elevata"
        hint = "add the former audit key to ELEVATA_AUDIT_KEYS_FORMER" if is_key_missing else ""
        raise Refused("CHANGED_OUTSIDE", f"{cause}: {', '.join(row.name for row in altered[:_NAMED])}{more}", hint)


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
