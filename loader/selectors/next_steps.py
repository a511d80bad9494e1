"""Next step of a dataset, source, load run, report or execution, with the users who can take it.

The rule is ``loader.domain.next_steps``; its facts are read here, in a constant number of queries.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ObjectDoesNotExist
from django.urls import reverse

from architecture.domain import decisions, report_states
from architecture.domain import operations as ops
from architecture.domain.scope import DATASET, SCHEMA, SELECTION, Scope
from architecture.forms import ALONE, ScopeForm
from architecture.models import AppliedDataset, ChangeReport, Environment, Execution
from architecture.permissions import may_build, place_of_execution, place_of_report
from architecture.selectors import outdated_reports
from architecture.selectors.executions import executions
from architecture.selectors.pending import Pending, covering_reports, open_reports, pending, pending_operations
from architecture.selectors.report_state import ReportState
from architecture.selectors.review_status import ReviewStatus
from architecture.services.environments import current_environment
from architecture.services.reports import operations_of
from elevata.accounts.access import holders
from elevata.accounts.permissions import may
from elevata.accounts.places import Place
from elevata.accounts.roles import Permission, Role
from elevata.core.errors import as_sentence
from elevata.core.words import counted
from elevata.jobs import states
from elevata.web.subjects import FINDERS
from loader.contract.refusals import Refusal
from loader.contract.run_states import LOAD as LOAD_KIND
from loader.domain import dependencies, next_steps
from loader.domain.next_steps import Facts
from loader.domain.selection import MAX_WORDS
from loader.domain.sources.proposal_states import OPEN
from loader.models import DatasetRun, LoadRun, SourceProposal
from loader.selectors.loads import is_loadable, newest_succeeded
from loader.selectors.runs import load_runs
from loader.selectors.source_state import loaded_dataset
from loader.services.loads.plans import plan_load
from loader.services.maintenance.approvals import is_unapproved
from metadata.domain.sources.option_kinds import QUARANTINE
from metadata.models import SourceDataset, TargetColumn, TargetDataset
from metadata.permissions import here, place_of
from metadata.selectors.datasets import source_dataset_detail

# Code of a run that pending changes blocked.
CHANGES_PENDING = "BLOCKED"
# Users that are named, and mentioned by the button that asks them.
NAMED, ASKED = 5, 3
# Datasets that one button loads; a longer list is loaded as everything.
_LOADED_BY_NAME = 20


@dataclass(frozen=True)
class NextStep:
    """Next step: ``do`` (one of ``next_steps.STEPS``), the reason for it, and how to take it.

    ``address`` is a page, or with ``is_form`` the target of a form with ``fields``. ``who`` are the users who can take
    it, ``refusal`` is the reason why this user cannot. ``ask`` are address and text of the comment that asks them,
    ``page`` is the page on which the step is taken.
    """

    do: str
    text: str
    button: str = ""
    address: str = ""
    is_form: bool = False
    fields: Mapping[str, str] = field(default_factory=dict)
    who: tuple[str, ...] = ()
    refusal: str = ""
    ask: tuple[str, str] = ("", "")
    page: str = ""
    pending: Pending | None = None

    @property
    def is_needed(self) -> bool:
        return self.do != next_steps.NOTHING

    @property
    def others(self) -> int:
        """Return the number of users besides those who are named."""
        return max(0, len(self.who) - NAMED)

    def as_json(self) -> dict[str, Any]:
        """Return the step for REST and commands."""
        return {
            "do": self.do,
            "text": self.text,
            "who": list(self.who),
            "allowed": self.is_needed and not self.refusal,
            "refusal": self.refusal,
            "page": self.page,
        }


@dataclass(frozen=True)
class _Known:
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


def next_step_of(kind: str, key: str, user: Any) -> NextStep:
    """Return the next step of a ``dataset`` or ``source`` (key), ``report`` (id), ``run`` (id) or ``execution`` (pk).

    Raise ObjectDoesNotExist for an unknown one.
    """
    known = _KINDS[kind](_valid(kind, key), user)
    step = _described(next_steps.next_step(known.facts), known, user)
    own = reverse(f"{kind}_page", args=[key])
    return replace(step, page=own if step.is_form or not step.address else step.address)


def _valid(kind: str, key: str) -> Any:
    try:
        return {"run": str, "execution": int}.get(kind, UUID)(key)
    except ValueError:
        raise ObjectDoesNotExist from None


# --- facts -------------------------------------------------------------------------------------------


def _of_dataset(key: UUID, user: Any) -> _Known:
    rows = TargetDataset.objects.select_related("schema", "history_of__schema", "generated_from")
    dataset = rows.get(key=key)
    dataset = dataset.history_of or dataset
    known = _with_changes(_Known(dataset=dataset, source=dataset.generated_from), user)
    return _with_newest_load(known, dataset)


def _of_source(key: UUID, user: Any) -> _Known:
    source = source_dataset_detail().get(key=key)
    dataset = loaded_dataset(source)
    proposal = SourceProposal.objects.filter(source=source, status=OPEN).first()
    columns = any(column.active for column in source.columns.all())
    facts = Facts(has_proposal=proposal is not None, lacks_targets=dataset is None and columns and source.active)
    known = _Known(facts, source=source, proposal=proposal, dataset=dataset)
    if dataset is None:
        return known
    upstream = [row for row in source.generated.all() if row.active and row.history_of_id is None]
    return _with_newest_load(_with_changes(known, user, upstream), dataset)


def _of_report(key: UUID, user: Any) -> _Known:
    rows = ChangeReport.objects.select_related("environment", "superseded_by")
    report = rows.defer("content", "superseded_by__content", "superseded_by__document").get(report_id=key)
    known = _with_report(_Known(), report, user, check=False)
    return _with_execution(known, known.execution) if known.execution is not None else known


def _of_execution(key: int, user: Any) -> _Known:
    return _with_execution(_Known(), executions().get(pk=key))


def _of_run(key: str, user: Any) -> _Known:
    run = load_runs().get(run_id=key)
    failed = run.datasets.filter(status=DatasetRun.Status.FAILED).select_related("run", "dataset__generated_from")
    refused = next((row for row in failed if _has_rest(row)), None)
    dataset = refused.dataset if refused is not None else None
    facts = Facts(run=run.status, is_unapproved=is_unapproved(run), has_rest=refused is not None)
    source = dataset.generated_from if dataset is not None else None
    known = _Known(facts, run=run, dataset=dataset, source=source)
    if run.status != states.BLOCKED or (run.error or {}).get("code") != CHANGES_PENDING or not _is_here(run):
        return known
    changes = changes_before_load(dependencies.Scope.from_json(run.scope))
    return _with_pending(known, changes, run.environment, user)


_KINDS: Mapping[str, Callable[[Any, Any], _Known]] = {
    "dataset": _of_dataset,
    "source": _of_source,
    "report": _of_report,
    "execution": _of_execution,
    "run": _of_run,
}
KINDS = tuple(_KINDS)


def changes_before_load(scope: dependencies.Scope) -> Pending:
    """Return the pending changes of the datasets that a load reads or writes which it does not apply by itself.

    Their scope is that of the report that the load waits for. None are known for an invalid scope.
    """
    environment = current_environment()
    try:
        plan = plan_load(scope)
    except Refusal:
        return Pending(Scope())
    operations, problem = pending_operations(environment, outdated_reports.signal(environment.pk))
    waiting = tuple(item for item in operations if item.key in plan.described and not item.is_automatic)
    names = sorted({plan.states[item.key].qualified_name for item in waiting})
    wanted = Scope()
    if scope.kind == dependencies.SCHEMA and all(name.partition(".")[0] == scope.name for name in names):
        wanted = Scope(SCHEMA, scope.name)
    elif scope.kind != dependencies.ALL and names:
        wanted = Scope(DATASET, names[0]) if len(names) == 1 else Scope(SELECTION, " ".join(names))
    reports = tuple(open_reports(environment, wanted)) if waiting else ()
    return Pending(wanted, waiting, problem, reports=reports)


def _with_changes(known: _Known, user: Any, upstream: Collection[TargetDataset] = ()) -> _Known:
    environment = current_environment()
    changes = pending(environment, user=user, dataset=known.dataset, upstream=upstream)
    return _with_pending(known, changes, environment, user)


def _with_pending(known: _Known, changes: Pending, environment: Environment, user: Any) -> _Known:
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
    return known if report is None else _with_report(known, report, user, check=True)


def _with_report(known: _Known, report: ChangeReport, user: Any, *, check: bool) -> _Known:
    """Add a report; ``check``: compute whether it is up to date, if that is not known."""
    state = ReportState(report)
    context = state.context(user, ask=check)
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
    scope = Scope(**report.scope) if known.pending is None else known.scope
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


def _with_execution(known: _Known, execution: Execution) -> _Known:
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


def _with_newest_load(known: _Known, dataset: TargetDataset) -> _Known:
    """Add the newest load of a dataset."""
    if not is_loadable(dataset):
        return known
    rows = DatasetRun.objects.filter(dataset_key=dataset.key, run__kind=LOAD_KIND)
    rows = rows.filter(run__environment=current_environment()).select_related("run", "dataset__generated_from")
    newest = rows.order_by("-run__requested_at", "-pk").first()
    success = newest_succeeded([dataset.key]).first()
    applied = AppliedDataset.objects.filter(environment=current_environment(), dataset_key=dataset.key)
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
    return bool(row.error and row.has_rejected_rows and source and source.options.get("faulty_rows") != QUARANTINE)


def _is_here(run: LoadRun) -> bool:
    return run.environment.name == settings.ENVIRONMENT


# --- description -------------------------------------------------------------------------------------


def _described(do: str, known: _Known, user: Any) -> NextStep:
    step = replace(_DESCRIPTIONS[do](known), do=do, pending=known.pending if known.facts.pending else None)
    if do in (next_steps.NOTHING, next_steps.WAIT, next_steps.OPEN_NEWER):
        return step
    permission, place = _permission(do, known)
    who = _users(do, known, permission, place)
    refusal = _refusal(do, known, user, permission, place)
    names = tuple(name for name in who if name != user.get_username())
    if refusal and names:
        step = replace(step, ask=_question(step, known, names))
    return replace(step, who=who, refusal=refusal)


def _permission(do: str, known: _Known) -> tuple[Permission, Place]:
    """Return the permission that a step needs, and its place."""
    if do in (next_steps.LOAD, next_steps.LOAD_AGAIN):
        return Permission.START_LOAD, here()
    if do == next_steps.APPROVE_RUN:
        return Permission.APPROVE_REPORTS, here()
    if do == next_steps.RESUME and known.execution is not None:
        place = place_of_execution(known.execution)()
        return Permission.EXECUTE_REPORTS, place
    if do in (next_steps.PREVIEW, next_steps.EXECUTE, next_steps.APPROVE) and known.report is not None:
        approves = do == next_steps.APPROVE
        permission = Permission.APPROVE_REPORTS if approves else Permission.EXECUTE_REPORTS
        return permission, place_of_report(known.report)()
    if do in (next_steps.REVIEW_PROPOSAL, next_steps.GENERATE, next_steps.LOAD_REST) or known.dataset is None:
        return Permission.CHANGE_METADATA, Place()
    return Permission.CHANGE_METADATA, place_of(known.dataset)


def _users(do: str, known: _Known, permission: Permission, place: Place) -> tuple[str, ...]:
    """Return the users who can take the step, by name."""
    users, excluded = holders(permission, place), set[str]()
    review = known.review
    if do == next_steps.APPROVE and review is not None:
        excluded = {*review.authors, *(approval.person_name for approval in review.approvals)}
        if review.need.role:
            users = users.filter(groups__name__in=(review.need.role, Role.ADMIN.value)).distinct()
    if do == next_steps.EXECUTE and review is not None and review.need.count and not review.approver_may_execute:
        excluded = {row.person_name for row in review.approvals if row.decision == decisions.YES}
    return tuple(name for name in users.values_list("username", flat=True) if name not in excluded)


def _refusal(do: str, known: _Known, user: Any, permission: Permission, place: Place) -> str:
    """Return the reason why the user cannot take the step; empty if the user can."""
    review = known.review
    if do == next_steps.CREATE_REPORT:
        return "" if may_build(user) else "Creating reports needs the editor, approver or operator role."
    if review is not None and do in (next_steps.APPROVE, next_steps.EXECUTE):
        refused = review.cannot_approve if do == next_steps.APPROVE else review.cannot_execute
        return _sentence(refused, user)
    if may(user, permission, place):
        return ""
    return f"It needs the {_ROLES[permission]} role."


_ROLES = {
    Permission.START_LOAD: "operator",
    Permission.APPROVE_REPORTS: "approver",
    Permission.EXECUTE_REPORTS: "operator",
    Permission.CHANGE_METADATA: "editor",
}


def _sentence(refused: Any, user: Any) -> str:
    if not refused:
        return ""
    message = refused["message"] if isinstance(refused, Mapping) else refused.message
    return as_sentence(str(message), user.get_username())


def _question(step: NextStep, known: _Known, names: tuple[str, ...]) -> tuple[str, str]:
    """Return address and text of a comment that asks the users, on the report or the dataset."""
    if known.report is not None:
        subject = ("report", known.report.report_id)
    elif known.dataset is not None:
        subject = ("dataset", known.dataset.key)
    else:
        return "", ""
    if subject[0] not in {finder.kind for finder in FINDERS if finder.comments}:
        return "", ""
    mentions = " ".join(f"@{name}" for name in names[:ASKED])
    return reverse("comment_list", args=subject), f"{mentions} {step.text} Please: {step.button.lower()}."


def _step(text: str, button: str, address: str, **fields: str) -> NextStep:
    """Return a step whose button sends a form with these fields."""
    return NextStep("", text, button, address, is_form=True, fields=fields)


def _page(text: str, button: str, address: str) -> NextStep:
    return NextStep("", text, button, address)


def _wait(known: _Known) -> NextStep:
    if known.execution is not None and known.execution.status in states.ACTIVE:
        address = reverse("execution_page", args=[known.execution.pk])
        return _page("The report is being executed.", "Show execution", address)
    assert known.run is not None  # only runs and executions are active
    return _page("A load is running.", "Show load", reverse("run_page", args=[known.run.run_id]))


def _resume(known: _Known) -> NextStep:
    assert known.execution is not None
    text = f"The execution is {known.execution.get_status_display().lower()}; its finished steps are not repeated."
    if known.execution.report is None:
        return _page(text, "Show execution", reverse("execution_page", args=[known.execution.pk]))
    return _step(text, "Resume execution", reverse("execution_resume", args=[known.execution.pk]))


def _report_of(known: _Known) -> tuple[ChangeReport, str]:
    assert known.report is not None  # the rule gives these steps for reports only
    return known.report, reverse("report_page", args=[known.report.report_id])


def _approve(known: _Known) -> NextStep:
    report, address = _report_of(known)
    text = f"The report of {report.title} needs {counted(known.facts.missing, 'approval')}."
    return _page(text, "Approve report", f"{address}#approvals")


def _preview(known: _Known) -> NextStep:
    report, _ = _report_of(known)
    text = f"The report of {report.title} has no preview of its statements."
    return _step(text, "Create preview", reverse("report_preview", args=[report.report_id]))


def _execute(known: _Known) -> NextStep:
    report, address = _report_of(known)
    text = f"The report of {report.title} can be executed."
    if known.pending is not None:  # who executes has seen the preview, which the report's page shows
        return _page(text, "Execute report", f"{address}#execute")
    steps = len(known.preview.document["steps"])
    button = f"Execute {counted(steps, 'step')}" if steps else "Execute"
    return _step(
        text, button, reverse("report_execute", args=[report.report_id]), preview=str(known.preview.fingerprint)
    )


def _open_newer(known: _Known) -> NextStep:
    report, _ = _report_of(known)
    newer = report.superseded_by
    address = reverse("report_page", args=[newer.report_id]) if newer is not None else reverse("report_list")
    return _page("A newer report replaced this one.", "Open newer report", address)


def _create_report(known: _Known) -> NextStep:
    scope, facts = known.scope, known.facts
    kind = ALONE if scope.target_only else scope.kind
    named = ScopeForm.NAMED_BY.get(kind)
    fields = {"scope": kind} | ({named: scope.name} if named else {})
    if facts.report == report_states.REJECTED:
        text = "The report was rejected. Change the metadata, then create a new one."
    elif facts.is_outdated:
        text = "The report is outdated."
    else:
        verb = "is" if facts.pending == 1 else "are"
        text = f"{counted(facts.pending, 'change')} {verb} not in the warehouse."
        if known.run is not None and known.run.status == states.BLOCKED:
            text = f"{counted(facts.pending, 'change')} must be executed before the load."
    return _step(text, "Create report", reverse("report_build"), **fields)


def _change_metadata(known: _Known) -> NextStep:
    text = "The change policy blocks the changes: take them back, or change the policy."
    if known.dataset is not None:
        return _page(text, "Show changes", reverse("dataset_changes", args=[known.dataset.key]))
    return _page(text, "Show operations", f"{_report_of(known)[1]}#operations")


def _retire(known: _Known) -> NextStep:
    assert known.column is not None
    text = f"The change policy blocks the removal of {known.column.name}. A retired column stays, with its values."
    return _page(text, "Retire instead", reverse("column_retire", args=[known.column.key]))


def _review_proposal(known: _Known) -> NextStep:
    assert known.proposal is not None
    address = reverse("source_proposal", args=[known.proposal.key])
    return _page("The source differs from its contract.", "Review proposal", address)


def _generate(known: _Known) -> NextStep:
    assert known.source is not None
    address = reverse("source_generate", args=[known.source.key])
    return _page("No tables are generated yet.", "Generate targets", address)


def _approve_run(known: _Known) -> NextStep:
    assert known.run is not None
    address = reverse("run_approve", args=[known.run.run_id])
    return _page("The run waits for the approval of another user.", "Approve run", address)


def _load_rest(known: _Known) -> NextStep:
    assert known.source is not None
    text = f"Rows of {known.source} do not fit. Correct the delivery, or quarantine these rows and load again."
    return _page(text, "Load the rest", f"{reverse('source_edit', args=[known.source.key])}#id_faulty_rows")


def _load_again(known: _Known) -> NextStep:
    assert known.run is not None
    text = f"The last load is {known.run.get_status_display().lower()}. Finished datasets are not loaded again."
    return _step(text, "Load again", reverse("run_again", args=[known.run.run_id]))


def _load(known: _Known) -> NextStep:
    if known.facts.pending:
        verb = "is" if known.facts.pending == 1 else "are"
        text = f"{counted(known.facts.pending, 'change')} {verb} not in the warehouse. The next load applies them."
    elif known.execution is None and known.run is None:
        text = "Nothing is loaded yet."
    else:
        text = "The tables have changed since the last load, which fills new columns."
    names = " ".join(known.loads)
    if len(known.loads) == 1:
        fields = {"scope": dependencies.DATASET, "dataset": names}
    elif known.loads and len(known.loads) <= _LOADED_BY_NAME and len(names) <= MAX_WORDS:
        fields = {"scope": dependencies.SELECTION, "selection": names}
    else:
        fields = {"scope": dependencies.ALL}
    return _step(text, "Load", reverse("run_start"), **fields)


def _nothing(known: _Known) -> NextStep:
    return NextStep("", "Nothing to do.")


_DESCRIPTIONS: Mapping[str, Callable[[_Known], NextStep]] = {
    next_steps.WAIT: _wait,
    next_steps.RESUME: _resume,
    next_steps.APPROVE: _approve,
    next_steps.PREVIEW: _preview,
    next_steps.EXECUTE: _execute,
    next_steps.OPEN_NEWER: _open_newer,
    next_steps.CREATE_REPORT: _create_report,
    next_steps.CHANGE_METADATA: _change_metadata,
    next_steps.RETIRE: _retire,
    next_steps.REVIEW_PROPOSAL: _review_proposal,
    next_steps.GENERATE: _generate,
    next_steps.APPROVE_RUN: _approve_run,
    next_steps.LOAD_REST: _load_rest,
    next_steps.LOAD_AGAIN: _load_again,
    next_steps.LOAD: _load,
    next_steps.NOTHING: _nothing,
}
