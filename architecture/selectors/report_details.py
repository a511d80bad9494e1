"""Details of a report: operations, steps, sizes, downstream graph."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.db.models import Count, QuerySet
from django.urls import reverse

from architecture.domain import operations as ops
from architecture.domain import workflow
from architecture.domain.change_policy import DESTRUCTIVE, REVIEW, RULES, SAFE, risk_of
from architecture.domain.operations import Operation
from architecture.domain.report import Scope
from architecture.domain.steps.step import Step, TableShape
from architecture.domain.workflow import Need, Refused
from architecture.models import Approval, ChangeReport, Environment, Execution, Preview
from architecture.permissions import place_of_report
from architecture.services.change_policy import policy_of
from architecture.services.previews import steps_in
from architecture.services.reports import decisions_on, operations_of
from elevata.accounts.permissions import Where, may, may_somewhere
from elevata.accounts.roles import Permission
from elevata.web.graph import HISTORY, LAYERS, Edge, Graph, Node
from metadata.models import SourceColumn, SourceDataset, TargetColumn, TargetDataset
from metadata.selectors.columns import stable_keys
from metadata.selectors.datasets import Lineage, downstream
from metadata.selectors.lineage import of_lineage

_FIXES = {rule.code: rule.fix for rule in RULES}
# Users with a part in the workflow may create reports; read-only users may not.
BUILDERS = (Permission.CHANGE_METADATA, Permission.APPROVE_REPORTS, Permission.EXECUTE_REPORTS)


def may_build(user: Any) -> bool:
    """Return whether the user may create reports: with permission to edit, approve or execute."""
    return any(may_somewhere(user, permission) for permission in BUILDERS)


# --- lists -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReportRow:
    """A report in a list."""

    report: ChangeReport
    scope: str
    operation_count: int
    said_yes: int
    execution: Execution | None


def report_rows(page: Any) -> list[ReportRow]:
    """Return the reports of one page of a list, with their number of operations and their outcome."""
    reports = list(page)
    pks = [report.pk for report in reports]
    documents = dict(ChangeReport.objects.filter(pk__in=pks).values_list("pk", "document__operations"))
    newest = {one.report_id: one for one in Execution.objects.filter(report__in=pks).order_by("pk")}
    return [
        ReportRow(
            report,
            scope_of(report),
            len(documents[report.pk] or ()),
            sum(approval.decision == workflow.YES for approval in report.approvals.all()),
            newest.get(report.pk),
        )
        for report in reports
    ]


def scope_of(report: ChangeReport) -> str:
    """Return a report's scope in words."""
    return Scope(**report.scope).describe()


def environments() -> QuerySet[Environment]:
    """Return environments with their number of reports."""
    return Environment.objects.annotate(report_count=Count("reports")).order_by("name")


# --- one report ------------------------------------------------------------------------------


@dataclass(frozen=True)
class OperationRow:
    """Operation as a page shows it. ``what`` is its change, ``fix`` the alternative."""

    number: int
    operation: Operation
    what: str
    message: str
    fix: str
    described: UUID | None

    @property
    def on_history(self) -> bool:
        return self.operation.side == ops.HISTORY


def operation_rows(report: ChangeReport, *, limit: int | None = None) -> list[OperationRow]:
    """Return a report's first operations, in order; datasets in metadata get a link."""
    operations = operations_of(report)[:limit]
    keys = {operation.dataset_key for operation in operations}
    described = set(TargetDataset.objects.filter(key__in=keys).values_list("key", flat=True))
    return [_operation_row(number, operation, described) for number, operation in enumerate(operations, start=1)]


def _operation_row(number: int, operation: Operation, described: set[UUID]) -> OperationRow:
    fix = _FIXES.get(operation.code, "") if operation.decision in (ops.BLOCKED, ops.NEEDS_APPROVAL) else ""
    message = operation.message.removesuffix(f"; {fix}") if fix else operation.message
    key = UUID(operation.dataset_key)
    return OperationRow(number, operation, what_changes(operation), message, fix, key if key in described else None)


def what_changes(operation: Operation) -> str:
    """Return ``full_name → display_name``, ``elevation: integer → bigint`` or ``lid``; empty for a whole table."""
    if operation.columns and not operation.column:
        return ", ".join(f"{before} → {after}" for _, before, after in operation.columns)
    if operation.from_ and operation.to:
        subject = f"{operation.column}: " if operation.column and operation.op != ops.RENAME_COLUMN else ""
        return f"{subject}{operation.from_} → {operation.to}"
    return operation.column


@dataclass(frozen=True)
class Standing:
    """State of a report for one user. ``authors`` cannot approve it; ``need`` is the environment's.

    ``cannot_decide`` and ``cannot_execute`` are the reasons why the user cannot, None if the user can.
    """

    need: Need
    approvals: tuple[Approval, ...]
    missing: int
    authors: tuple[str, ...]
    approver_may_execute: bool
    cannot_approve: Refused | Mapping[str, Any] | None
    cannot_reject: Refused | None
    cannot_execute: Refused | Mapping[str, Any] | None

    @property
    def may_say_something(self) -> bool:
        """Return True if the user may still approve or reject it."""
        return not (self.cannot_approve and self.cannot_reject)


def standing(report: ChangeReport, user: Any, authors: frozenset[str]) -> Standing:
    """Return the state of a report for this user. ``authors`` edited what it changes."""
    policy = policy_of(report.environment)
    need = policy.approvals[report.risk]
    approvals, decided = tuple(report.approvals.order_by("pk")), decisions_on(report)
    # Pages are shown to users, who act for themselves.
    name, place = user.get_username(), place_of_report(report)

    def decide(decision: str) -> None:
        workflow.refuse_decision(
            status=report.status,
            user=name,
            decision=decision,
            authors=authors,
            decided=decided,
            needed=need.count,
        )

    def execute() -> None:
        workflow.refuse_execution(
            status=report.status,
            decisions=decided,
            fingerprint=report.fingerprint,
            need=need,
            authors=authors,
            user=name,
            approver_may_execute=policy.approver_may_execute,
        )

    deciding = (user, Permission.APPROVE_REPORTS, place, "your account may read reports, but not decide on them")
    message = "your account may read reports, but not preview or execute them"
    executing = (user, Permission.EXECUTE_REPORTS, place, message)
    return Standing(
        need=need,
        approvals=approvals,
        missing=workflow.approvals_missing(decided, fingerprint=report.fingerprint, need=need, authors=authors),
        authors=tuple(sorted(authors)),
        approver_may_execute=policy.approver_may_execute,
        cannot_approve=_why_not(lambda: decide(workflow.YES), *deciding),
        cannot_reject=_why_not(lambda: decide(workflow.NO), *deciding),
        cannot_execute=_why_not(execute, *executing),
    )


def _why_not(asking: Callable[[], None], user: Any, permission: Permission, place: Where, said: str) -> Refused | None:
    """Return why the workflow refuses the user, or that the permission is missing; None if it is allowed."""
    try:
        asking()
    except Refused as refused:
        return refused
    return None if may(user, permission, place) else Refused("NOT_PERMITTED", said)


def against(standing: Standing, refusal: Mapping[str, Any]) -> Standing:
    """Return the state of an outdated report: it can only be rejected."""
    if not refusal:
        return standing
    return replace(
        standing,
        cannot_approve=standing.cannot_approve or refusal,
        cannot_execute=standing.cannot_execute or refusal,
    )


def names_of(keys: Collection[str]) -> dict[str, str]:
    """Return the present names of datasets and columns with these stable keys; undescribed keys are left out."""
    found: dict[str, str] = {}
    for model, parts in _NAMED.items():
        for key, *names in model.objects.filter(key__among=keys).values_list("key", *parts):
            found[str(key)] = ".".join(names)
    return found


_NAMED: dict[Any, tuple[str, ...]] = {
    TargetDataset: ("schema__name", "name"),
    SourceDataset: ("system__short_name", "name"),
    TargetColumn: ("dataset__schema__name", "dataset__name", "name"),
    SourceColumn: ("dataset__system__short_name", "dataset__name", "name"),
}


# --- a preview -------------------------------------------------------------------------------


@dataclass(frozen=True)
class StepRow:
    """A step of a preview with its statements as one text."""

    number: int
    step: Step
    statement: str


@dataclass
class TableSteps:
    """The steps on one table, the structure that the first assumes, and how big the table is."""

    key: str
    name: str
    assumes: TableShape | None
    size: Mapping[str, int]
    rewritten: bool
    read: bool
    steps: list[StepRow] = field(default_factory=list)


def steps_by_table(preview: Preview) -> list[TableSteps]:
    """Return a preview's steps by table, in the order of each table's first step."""
    estimate = preview.estimate or {}
    found: dict[str, TableSteps] = {}
    rows = zip(steps_in(preview), preview.document["steps"], strict=True)
    for number, (step, row) in enumerate(rows, start=1):
        table, name = step.table, step.table.qualified_name
        if table.key not in found:
            found[table.key] = TableSteps(
                table.key,
                step.assumes.qualified_name if step.assumes else name,
                step.assumes,
                preview.sizes.get(table.key) or {},
                rewritten=False,
                read=False,
            )
        known = found[table.key]
        known.rewritten = known.rewritten or name in estimate.get("rewritten", {})
        known.read = known.read or name in estimate.get("read", {})
        known.steps.append(StepRow(number, step, row["statement"]))
    return list(found.values())


@dataclass(frozen=True)
class ChangedSize:
    """Total size of the tables that a preview changes; None where a table's size is not known."""

    tables: int
    steps: int
    rows: int | None
    size: int | None
    rewritten_rows: int | None
    rewritten_size: int | None
    rewritten_tables: int


def changed_size(preview: Preview, tables: list[TableSteps]) -> ChangedSize:
    """Return the size of the tables that steps change, and of those that are rewritten."""
    rewritten = [table for table in tables if table.rewritten]
    return ChangedSize(
        tables=len(tables),
        steps=len(preview.document["steps"]),
        rows=_sum(tables, "rows"),
        size=_sum(tables, "bytes"),
        rewritten_rows=_sum(rewritten, "rows"),
        rewritten_size=_sum(rewritten, "bytes"),
        rewritten_tables=len(rewritten),
    )


def _sum(tables: list[TableSteps], what: str) -> int | None:
    """Return the sums of sizes; tables still to be created have none."""
    sizes = [0 if table.assumes is None else table.size.get(what) for table in tables]
    return None if any(size is None for size in sizes) else sum(size for size in sizes if size is not None)


# Lineage graph of a report's datasets and everything downstream of them.


# Larger graphs are unreadable; their datasets are only listed.
DRAWN = 300
AFFECTED = "affected"
_WORDS = {
    ops.BLOCKED: "blocked",
    DESTRUCTIVE: "destructive",
    REVIEW: "review risk",
    SAFE: "safe",
    AFFECTED: "reads from it",
}


@dataclass(frozen=True)
class DownstreamGraph:
    """``changed`` are datasets with operations, the worst first; ``reading`` all others downstream of them."""

    graph: Graph
    changed: tuple[Node, ...]
    reading: tuple[Node, ...]

    @property
    def is_drawn(self) -> bool:
        return 0 < len(self.graph.nodes) <= DRAWN


def downstream_graph(report: ChangeReport) -> DownstreamGraph:
    """Return the datasets of a report's operations and everything downstream of them in current metadata."""
    operations = operations_of(report)
    described = _described(report, {operation.dataset_key for operation in operations})
    found = downstream(set(described.values()))
    keys = {node: str(key) for node, key in stable_keys(found).items()}
    plain = of_lineage(found, lambda node: reverse("dataset_page", args=[keys[node.id]]))
    graph = _marked(plain, _risks(operations, found, keys, described))
    graph = _with_gone(graph, operations, described, keys, report)
    order = {state: place for place, state in enumerate(_WORDS)}
    told = sorted(graph.nodes, key=lambda node: (order[node.state], node.sub, node.title))
    return DownstreamGraph(
        graph,
        tuple(node for node in told if node.state != AFFECTED),
        tuple(node for node in told if node.state == AFFECTED),
    )


def _described(report: ChangeReport, keys: Collection[str]) -> dict[str, str]:
    """Return the stable key in metadata of each dataset still described; the environment's may differ.

    The report's content is large, so it is read only if a stable key is unknown.
    """
    rows = TargetDataset.objects.filter(key__among=keys, history_of__isnull=True)
    found = {str(key): str(key) for key in rows.values_list("key", flat=True)}
    others = {key for key in keys if key not in found}
    if others:
        names = {(row[1], row[2]): row[0] for row in report.content["desired"] if row[0] in others}
        named = TargetDataset.objects.filter(name__in={name for _, name in names}, history_of__isnull=True)
        for schema, name, key in named.values_list("schema__name", "name", "key"):
            if (schema, name) in names:
                found[names[schema, name]] = str(key)
    return found


def _risks(
    operations: Iterable[Operation], found: Lineage, keys: Mapping[str, str], described: Mapping[str, str]
) -> dict[str, str]:
    """Return the highest risk of each node. Operations on an undescribed history count for its base."""
    nodes = {key: node for node, key in keys.items()}
    histories = {edge.start: edge.end for edge in found.edges if edge.kind == HISTORY}
    done: dict[str, list[Operation]] = {}
    for operation in operations:
        base = nodes.get(described.get(operation.dataset_key, ""))
        if base is not None:
            done.setdefault(histories.get(base, base) if operation.side == ops.HISTORY else base, []).append(operation)
    return {node: worst(its) for node, its in done.items()}


def worst(operations: Iterable[Operation]) -> str:
    """Return blocked, destructive, review or safe."""
    its = tuple(operations)
    return ops.BLOCKED if any(one.decision == ops.BLOCKED for one in its) else risk_of(its)


def _marked(graph: Graph, risks: Mapping[str, str]) -> Graph:
    nodes = (_in_state(node, risks.get(node.id, AFFECTED)) for node in graph.nodes)
    return Graph(tuple(nodes), graph.edges)


def _in_state(node: Node, state: str) -> Node:
    """Return a dataset of a lineage; ``here`` marks the centre, of a report every changed one."""
    return replace(node, state=state, said=_WORDS[state], here=False)


def _with_gone(
    graph: Graph,
    operations: Iterable[Operation],
    described: Mapping[str, str],
    keys: Mapping[str, str],
    report: ChangeReport,
) -> Graph:
    """Return the lineage with datasets no longer described, and their applied readers."""
    its: dict[str, list[Operation]] = {}
    for operation in operations:
        if operation.dataset_key not in described:
            its.setdefault(operation.dataset_key, []).append(operation)
    if not its:
        return graph
    gone = {key: _gone(key, done) for key, done in its.items()}
    nodes = {key: node for node, key in keys.items()}
    nodes |= {known: nodes[key] for known, key in described.items() if key in nodes}
    nodes |= {key: node.id for key, node in gone.items()}
    read = (
        Edge(gone[source].id, nodes[state[0]])
        for state, *_ in report.content["current"]
        for source in state[9]
        if source in gone and state[0] in nodes
    )
    return Graph((*graph.nodes, *gone.values()), (*graph.edges, *read))


def _gone(key: str, operations: list[Operation]) -> Node:
    named = next((operation.dataset for operation in operations if operation.side == ops.BASE), operations[0].dataset)
    schema, _, name = named.partition(".")
    layer = schema if schema in LAYERS else "rawcore"
    return _in_state(Node(f"gone:{key}", name, f"{schema} · not described", layer), worst(operations))
