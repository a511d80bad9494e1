"""Facts on which the next step of a subject depends, read in a constant number of queries."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ObjectDoesNotExist

from architecture.domain import operations as ops
from architecture.domain import report_states
from architecture.models import AppliedDataset, ChangeReport, Environment, Execution
from architecture.selectors.executions import executions
from architecture.selectors.outdated_reports import Inputs
from architecture.selectors.pending import (
    Pending,
    covering_reports,
    open_reports,
    pending_of_dataset,
    pending_operations,
)
from architecture.selectors.report_state import ReportState
from architecture.selectors.review_status import ReviewStatus
from architecture.services.environments import current_environment
from architecture.services.reports import operations_of
from elevata.jobs import states
from loader.contract.refusals import Refusal
from loader.contract.run_states import LOAD as LOAD_KIND
from loader.domain.next_steps import Facts
from loader.domain.sources.proposal_states import OPEN
from loader.models import DatasetRun, LoadRun, SourceProposal
from loader.selectors.loads import is_loadable, newest_succeeded
from loader.selectors.runs import load_runs
from loader.selectors.source_state import loaded_dataset
from loader.services.loads.plans import plan_load
from loader.services.maintenance.approvals import is_unapproved
from metadata.domain.scope import ALL, DATASET, SCHEMA, SELECTION, Scope
from metadata.domain.sources.option_kinds import FAULTY_ROWS, QUARANTINE
from metadata.models import SourceDataset, TargetColumn, TargetDataset
from metadata.selectors.datasets import source_dataset_detail

# Code of a run that pending changes blocked.
CHANGES_PENDING = "BLOCKED"


@dataclass(frozen=True)
class Known:
    """Facts about the subject, and the rows that the step is about."""

    facts: Facts = field(default_factory=Facts)
    report: ChangeReport | None = None
    review: ReviewStatus | None = None
    preview: Any = None
    execution: Execution | None = None
    run: LoadRun | None = None
    dataset: TargetDataset | None = None
    source: SourceDataset | None = None
    proposal: SourceProposal | None = None
    pending: Pending | None = None
    column: TargetColumn | None = None
    # Scope of the report and of the load that are to be made.
    scope: Scope = field(default_factory=Scope)
    loads: tuple[str, ...] = ()


def known_of(kind: str, key: Any, user: Any) -> Known:
    """Return the facts about a subject by its ``valid_key``. Raise ObjectDoesNotExist for an unknown one."""
    return _KINDS[kind](key, user)


def valid_key(kind: str, text: str) -> Any:
    """Return the key, id or number in a text. Raise ObjectDoesNotExist for a text that nothing has."""
    try:
        if "\0" in text:  # PostgreSQL raises an error
            raise ObjectDoesNotExist
        return {"run": str, "execution": int}.get(kind, UUID)(text)
    except ValueError:
        raise ObjectDoesNotExist from None


def _of_dataset(key: UUID, user: Any) -> Known:
    rows = TargetDataset.objects.select_related("schema", "history_of__schema", "generated_from")
    dataset = rows.get(key=key)
    dataset = dataset.history_of or dataset
    environment = current_environment()
    known = _with_changes(Known(dataset=dataset, source=dataset.generated_from), dataset, environment, user)
    return _with_newest_load(known, dataset, environment)


def _of_source(key: UUID, user: Any) -> Known:
    source = source_dataset_detail().get(key=key)
    dataset = loaded_dataset(source)
    proposal = SourceProposal.objects.filter(source=source, status=OPEN).first()
    columns = any(column.active for column in source.columns.all())
    facts = Facts(has_proposal=proposal is not None, lacks_targets=dataset is None and columns and source.active)
    known = Known(facts, source=source, proposal=proposal, dataset=dataset)
    if dataset is None:
        return known
    upstream = [row for row in source.generated.all() if row.active and row.history_of_id is None]
    environment = current_environment()
    known = _with_changes(known, dataset, environment, user, upstream)
    return _with_newest_load(known, dataset, environment)


def _of_report(key: UUID, user: Any) -> Known:
    rows = ChangeReport.objects.select_related("environment", "superseded_by")
    report = rows.defer("content", "superseded_by__content", "superseded_by__document").get(report_id=key)
    if not _is_here(report.environment):
        return Known()
    known = _with_report(Known(), report, user)
    return _with_execution(known, known.execution) if known.execution is not None else known


def _of_execution(key: int, user: Any) -> Known:
    # By the job's own number: the key to the job would overflow beyond its range.
    execution = executions().get(id=key)
    return _with_execution(Known(), execution) if _is_here(execution.environment) else Known()


def _of_run(key: str, user: Any) -> Known:
    run = load_runs().get(run_id=key)
    if not _is_here(run.environment):
        return Known()
    failed = run.datasets.filter(status=DatasetRun.Status.FAILED).select_related("run", "dataset__generated_from")
    refused = next((row for row in failed if _has_rest(row)), None)
    dataset = refused.dataset if refused is not None else None
    facts = Facts(run=run.status, is_unapproved=is_unapproved(run), has_rest=refused is not None)
    source = dataset.generated_from if dataset is not None else None
    known = Known(facts, run=run, dataset=dataset, source=source)
    if run.status != states.BLOCKED or (run.error or {}).get("code") != CHANGES_PENDING:
        return known
    inputs = Inputs(run.environment_id)
    changes = changes_before_load(Scope.from_json(run.scope), inputs)
    return _with_pending(known, changes, run.environment, user, inputs)


_KINDS: Mapping[str, Callable[[Any, Any], Known]] = {
    "dataset": _of_dataset,
    "source": _of_source,
    "report": _of_report,
    "execution": _of_execution,
    "run": _of_run,
}
KINDS = tuple(_KINDS)


def changes_before_load(scope: Scope, inputs: Inputs | None = None) -> Pending:
    """Return the pending changes of the datasets that a load reads or writes which it does not apply by itself.

    Their scope is that of the report that the load waits for. None are known for an invalid scope.
    """
    environment = current_environment()
    try:
        plan = plan_load(scope)
    except Refusal:
        return Pending(Scope())
    inputs = inputs or Inputs(environment.pk)
    operations, problem = pending_operations(environment, inputs.signal, inputs.gathered)
    waiting = tuple(item for item in operations if item.key in plan.described and not item.is_automatic)
    names = sorted({plan.states[item.key].qualified_name for item in waiting})
    wanted = Scope()
    if scope.kind == SCHEMA and all(name.partition(".")[0] == scope.name for name in names):
        wanted = Scope(SCHEMA, scope.name)
    elif scope.kind != ALL and names:
        wanted = Scope(DATASET, names[0]) if len(names) == 1 else Scope(SELECTION, " ".join(names))
    reports = tuple(open_reports(environment, wanted)) if waiting else ()
    return Pending(wanted, waiting, problem, reports=reports)


def _with_changes(
    known: Known,
    dataset: TargetDataset,
    environment: Environment,
    user: Any,
    upstream: Collection[TargetDataset] = (),
) -> Known:
    inputs = Inputs(environment.pk)
    changes = pending_of_dataset(environment, dataset, user=user, inputs=inputs, upstream=upstream)
    return _with_pending(known, changes, environment, user, inputs)


def _with_pending(known: Known, changes: Pending, environment: Environment, user: Any, inputs: Inputs) -> Known:
    """Add pending changes, with the newest report that covers them."""
    operations = changes.operations
    facts = replace(
        known.facts,
        pending=len(operations),
        undecided=sum(not item.is_automatic for item in operations),
        blocked=sum(item.decision == ops.BLOCKED for item in operations),
    )
    known = replace(known, facts=facts, pending=changes, scope=changes.scope)
    if not facts.undecided:
        return known
    rows = covering_reports(environment, changes.scope).exclude(executions__status=states.SUCCEEDED)
    report = rows.first()
    return known if report is None else _with_report(known, report, user, inputs)


def _with_report(known: Known, report: ChangeReport, user: Any, inputs: Inputs | None = None) -> Known:
    """Add a report. With ``inputs``, it is checked whether it is up to date, if that is not known."""
    state = ReportState(report, inputs)
    context = state.context(user, ask=inputs is not None)
    execution, column = state.execution, _retirable(report)
    facts = replace(
        known.facts,
        report=report.status,
        missing=context["review"].missing,
        is_outdated=bool(context["refusal"]),
        is_previewed=state.preview is not None,
        is_retirable=column is not None,
        execution=execution.status if execution is not None else "",
    )
    scope = Scope.from_json(report.scope) if known.pending is None else known.scope
    return replace(
        known,
        facts=facts,
        report=report,
        review=context["review"],
        preview=state.preview,
        execution=execution,
        column=column,
        scope=scope,
    )


def _retirable(report: ChangeReport) -> TargetColumn | None:
    """Return the active column whose removal the policy blocks in an undo report; None if more is blocked."""
    if report.status != report_states.BLOCKED or report.undo_of_id is None:
        return None
    blocked = [operation for operation in operations_of(report) if operation.decision == ops.BLOCKED]
    keys = {operation.column_key for operation in blocked if operation.op == ops.DROP_COLUMN}
    if len(keys) != 1 or len(keys) != len({(operation.op, operation.column_key) for operation in blocked}):
        return None
    return TargetColumn.objects.filter(key=keys.pop(), active=True).select_related("dataset__schema").first()


def _with_execution(known: Known, execution: Execution) -> Known:
    """Add an execution, and after its success the datasets that were not loaded since."""
    names: tuple[str, ...] = ()
    if execution.status == states.SUCCEEDED and execution.report is not None:
        keys = set(execution.operations.values_list("dataset_key", flat=True))
        rows = TargetDataset.objects.filter(key__among=keys, active=True, history_of__isnull=True)
        loadable = {row.key: row for row in rows.select_related("schema") if is_loadable(row)}
        loaded = dict(newest_succeeded(loadable.keys()).values_list("dataset_key", "finished_at"))
        behind = [row for key, row in loadable.items() if _is_older(loaded.get(key), execution.finished_at)]
        names = tuple(sorted(map(str, behind)))
    facts = replace(known.facts, execution=execution.status, is_behind=bool(names))
    return replace(known, facts=facts, execution=execution, report=known.report or execution.report, loads=names)


def _with_newest_load(known: Known, dataset: TargetDataset, environment: Environment) -> Known:
    """Add the newest load of a dataset."""
    if not is_loadable(dataset):
        return known
    rows = DatasetRun.objects.filter(dataset_key=dataset.key, run__kind=LOAD_KIND)
    rows = rows.filter(run__environment=environment).select_related("run", "dataset__generated_from")
    newest = rows.order_by("-run__requested_at", "-pk").first()
    success = newest_succeeded([dataset.key]).first()
    applied = AppliedDataset.objects.filter(environment=environment, dataset_key=dataset.key)
    changed = applied.values_list("updated_at", flat=True).first()
    is_behind = success is None or (changed is not None and _is_older(success.finished_at, changed))
    status = ""
    if newest is not None:
        has_succeeded = newest.status == DatasetRun.Status.SUCCEEDED
        status = states.SUCCEEDED if has_succeeded and newest.run.is_finished else newest.run.status
    has_rest = newest is not None and _has_rest(newest)
    facts = replace(known.facts, run=status, is_behind=is_behind, has_rest=has_rest)
    run = newest.run if newest is not None else None
    return replace(known, facts=facts, run=run, loads=(str(dataset),))


def _is_older(loaded: datetime | None, changed: datetime | None) -> bool:
    """Return True if a table was loaded before a change, or never."""
    return loaded is None or changed is None or loaded < changed


def _has_rest(row: DatasetRun) -> bool:
    """Return True if the delivery was refused for some of its rows, which its source can leave out."""
    source = row.dataset.generated_from if row.dataset is not None else None
    return bool(row.error and row.has_rejected_rows and source and source.options.get(FAULTY_ROWS) != QUARANTINE)


def _is_here(environment: Environment) -> bool:
    """Return False for another environment than this installation's: nothing of it can be done here."""
    return environment.name == settings.ENVIRONMENT
