"""Check that rows are as the product stored them, before they count.

Approvals are links of the audit chain. Reports, previews, executions and applied state change, so they are no links:
what decides of them is signed with the audit key when they are stored.
"""

from collections.abc import Collection, Iterable
from typing import Any
from uuid import UUID

from django.db.models import Model

from architecture.domain.reports.workflow import Refused
from architecture.domain.states.flat import of_row
from architecture.models import AppliedDataset, ChangeReport, Environment, Execution, KeptHistory, Preview
from architecture.selectors import applied_by_pk
from elevata.core.canonical_json import sha256_hex
from metadata.domain.chain import Problem
from metadata.domain.signing import Signature
from metadata.domain.state import DatasetState
from metadata.services import chain
from metadata.services.signing import sign, signature_problem

_REPORT, _PREVIEW = "change-report", "preview"
# Purpose and columns of rows that are signed as they are: all that decides of them.
_SIGNED: dict[type[Model], tuple[str, tuple[str, ...]]] = {
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
    """Return the signature that goes into a report's row."""
    return str(sign(_REPORT, _report_content(report)))


def sign_preview(report: ChangeReport, fingerprint: str) -> str:
    """Return the signature that goes into the row of a preview of this report."""
    return str(sign(_PREVIEW, _preview_content(report, fingerprint)))


def refuse_unproven(report: ChangeReport) -> None:
    """Raise Refused if the report or one of the decisions on it was written beside the product.

    REPORT_UNPROVEN, APPROVAL_UNPROVEN.
    """
    approvals = list(report.approvals.order_by("pk"))
    missing = {one.pk for one in approvals} - chain.proven(*approvals)
    for approval in approvals:
        if approval.pk in missing:
            said = f"the decision of {approval.person_name} is not in the audit chain as it stands in the database"
            raise Refused("APPROVAL_UNPROVEN", said)
    if signature_problem(Signature.parse(report.signature), _REPORT, _report_content(report)):
        raise Refused("REPORT_UNPROVEN")


def refuse_unproven_preview(report: ChangeReport, preview: Preview) -> None:
    """Raise Refused PREVIEW_UNPROVEN unless the product made this preview, with these statements, of this report."""
    content = _preview_content(report, preview.fingerprint)
    if (
        signature_problem(Signature.parse(preview.signature), _PREVIEW, content)
        or sha256_hex(preview.document) != preview.fingerprint
        or preview.document["report"] != report.fingerprint
    ):
        raise Refused("PREVIEW_UNPROVEN")


# --- applied state and executions --------------------------------------------------------------


def signature_of(row: AppliedDataset | KeptHistory | Execution) -> str:
    """Return the signature that goes into a row. It covers the id of an execution, so that has one before."""
    purpose, columns = _SIGNED[type(row)]
    return str(sign(purpose, _columns(row, columns)))


def is_proven(row: AppliedDataset | KeptHistory | Execution) -> bool:
    """Return whether a row is signed as it is. Of applied state it reads all but the state, if that is deferred."""
    purpose, columns = _SIGNED[type(row)]
    if signature_problem(Signature.parse(row.signature), purpose, _columns(row, columns)):
        return False
    if not isinstance(row, AppliedDataset) or "state" in row.get_deferred_fields():
        return True
    return sha256_hex(row.state) == row.digest


def proven_states(*, environment: Environment) -> tuple[DatasetState, ...]:
    """Return the applied states (flat), ordered by stable key. Refused APPLIED_UNPROVEN if one is not as it was stored.

    A state that this process has read once is not read again: it counts as it was when it was signed.
    """
    rows = AppliedDataset.objects.filter(environment=environment).order_by("dataset_key")
    parsed = applied_by_pk(rows)
    states = []
    for row in rows.defer("state"):
        state, digest = parsed.get(row.pk, (None, ""))
        if state is None or digest != row.digest or not is_proven(row):
            # It may have been written between the two queries.
            fresh = AppliedDataset.objects.filter(pk=row.pk).first()
            if fresh is None:
                continue
            refuse_unproven_row(fresh)
            state = of_row(fresh.state)
        states.append(state)
    return tuple(states)


def proven_followed(*, environment: Environment, states: Iterable[DatasetState]) -> dict[str, DatasetState]:
    """Return what histories of these datasets last followed that are only kept, by the history's stable key.

    Refused APPLIED_UNPROVEN if one is not as it was stored.
    """
    histories = {state.history_key for state in states} - {None}
    followed = {}
    for row in KeptHistory.objects.filter(environment=environment):
        if str(row.history_key) in histories:
            refuse_unproven_row(row)
            followed[str(row.history_key)] = of_row(row.state)
    return followed


def proven_marks(*, environment: Environment, keys: Collection[str]) -> dict[str, int]:
    """Return the marks of these datasets; a row that is not as it was stored has none."""
    rows = AppliedDataset.objects.filter(environment=environment, dataset_key__among=keys).defer("state")
    return {str(row.dataset_key): row.through for row in rows if is_proven(row)}


def refuse_unproven_row(row: AppliedDataset | KeptHistory) -> None:
    """Raise Refused APPLIED_UNPROVEN unless the row is signed as it is."""
    if not is_proven(row):
        raise Refused("APPLIED_UNPROVEN", f"{_named(row)} is not as the product stored it")


def refuse_unproven_execution(execution: Execution) -> None:
    """Raise Refused EXECUTION_UNPROVEN unless the execution was asked for by the product, with what is planned."""
    if not is_proven(execution):
        raise Refused("EXECUTION_UNPROVEN")


def sign_execution(execution: Execution) -> None:
    """Store the signature of an execution, and what is planned with it."""
    execution.signature = signature_of(execution)
    rows = Execution.objects.filter(pk=execution.pk)
    rows.update(planned=execution.planned, signature=execution.signature)


def unproven_row() -> Problem | None:
    """Return the first row of applied state, kept histories and executions that is not signed as it is."""
    for model, code in _CODES.items():
        for row in model.objects.order_by("pk").iterator(chunk_size=200):
            if not is_proven(row):
                said = f"{_named(row)} is not as the product stored it"
                return Problem(code, said, kind=_SIGNED[model][0], subject=row.pk)
    return None


_CODES = {AppliedDataset: "applied_unproven", KeptHistory: "applied_unproven", Execution: "execution_unproven"}


def _named(row: AppliedDataset | KeptHistory | Execution) -> str:
    if isinstance(row, AppliedDataset):
        return f"what was applied of {row.qualified_name}"
    return f"the logic that history {row.history_key} followed" if isinstance(row, KeptHistory) else str(row)


def _columns(row: Model, names: Iterable[str]) -> dict[str, Any]:
    return {name: _signed(getattr(row, name)) for name in names}


# --- contents ----------------------------------------------------------------------------------

# Set after a report is stored, or by storing it: its state is made again from decisions, which are links.
_NOT_SIGNED = frozenset({"id", "status", "superseded_by_id", "observed_at", "created_at", "signature"})


def _report_content(report: ChangeReport) -> dict[str, Any]:
    """Every column but those, so one that is added is signed, too."""
    columns = [field.attname for field in ChangeReport._meta.concrete_fields]
    return _columns(report, (name for name in columns if name not in _NOT_SIGNED))


def _signed(value: Any) -> Any:
    """A value as canonical JSON takes it; a document by its digest."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, dict):
        return sha256_hex(value)
    return str(value) if isinstance(value, str) else value


def _preview_content(report: ChangeReport, fingerprint: str) -> dict[str, Any]:
    return {"report": str(report.report_id), "fingerprint": fingerprint}
