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
from architecture.domain.report_content import read_current, read_desired
from architecture.domain.steps.step import Step, TableShape
from architecture.domain.workflow import Need, Refused
from architecture.models import Approval, ChangeReport, Environment, Execution, Preview
from architecture.permissions import BUILDERS, place_of_report
from architecture.services.change_policy import policy_of
from architecture.services.previews import steps_in
from architecture.services.reports import decisions_on, operations_of
from elevata.accounts.permissions import Where, may, may_somewhere
from elevata.accounts.roles import Permission
from elevata.web.graph import HISTORY, LAYERS, Edge, Graph, Node
from metadata.domain.impact import DROP, RENAME, RETYPE
from metadata.models import SourceColumn, SourceDataset, TargetColumn, TargetDataset
from metadata.selectors.columns import stable_keys
from metadata.selectors.dataset_lineage import Lineage, downstream
from metadata.selectors.impact import impact_of
from metadata.selectors.lineage import of_lineage
from metadata.selectors.model_dependents import Dependent

_FIXES = {rule.code: rule.fix for rule in RULES}

def may_build(user: Any) -> bool:
    """Return True if the user may create reports: with permission to edit, approve or execute."""
    return any(may_somewhere(user, permission) for permission in BUILDERS)


# --- lists -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReportRow:
    """Report in a list."""

    report: ChangeReport
    scope: str
    operation_count: int
    said_yes: int
    execution: Execution | None


def report_rows(page: Any) -> list[ReportRow]:
    """Return the rows of one page of a list of reports."""
    reports = list(page)
    pks = [report.pk for report in reports]
    documents = dict(ChangeReport.objects.filter(pk__in=pks).values_list("pk", "document__operations"))
    newest = {execution.report_id: execution for execution in Execution.objects.filter(report__in=pks).order_by("pk")}
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
    """Operation on a page. ``what`` is the change, ``fix`` an alternative to it, ``described`` its dataset's key."""

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
    """Return a report's first operations, in order. Datasets in the metadata get a link."""
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
    """Return ``full_name → display_name``, ``elevation: integer → bigint`` or ``lid``; empty for a table."""
    if operation.columns and not operation.column:
        return ", ".join(f"{before} → {after}" for _, before, after in operation.columns)
    if operation.op in ops.NAMING:
        return operation.renaming
    if operation.from_ and operation.to:
        subject = f"{operation.column}: " if operation.column else ""
        return f"{subject}{operation.from_} → {operation.to}"
    return operation.column


@dataclass(frozen=True)
class ReviewStatus:
    """State of a report for one user. ``authors`` cannot approve it; ``need`` are the required approvals.

    ``cannot_approve``, ``cannot_reject`` and ``cannot_execute`` are the reasons for refusal, None if the user may.
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


def review_status(report: ChangeReport, user: Any, authors: frozenset[str]) -> ReviewStatus:
    """Return the state of a report for this user. ``authors`` are the authors of its changes."""
    policy = policy_of(report.environment)
    need = policy.approvals[report.risk]
    approvals, decided = tuple(report.approvals.order_by("pk")), decisions_on(report)
    # Pages are for signed-in users, not for service accounts, so the name is the user's own.
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
    return ReviewStatus(
        need=need,
        approvals=approvals,
        missing=workflow.approvals_missing(decided, fingerprint=report.fingerprint, need=need, authors=authors),
        authors=tuple(sorted(authors)),
        approver_may_execute=policy.approver_may_execute,
        cannot_approve=_refusal(lambda: decide(workflow.YES), *deciding),
        cannot_reject=_refusal(lambda: decide(workflow.NO), *deciding),
        cannot_execute=_refusal(execute, *executing),
    )


def _refusal(
    check: Callable[[], None], user: Any, permission: Permission, place: Where, message: str
) -> Refused | None:
    """Return the refusal of the workflow, or of a user without permission; None if the user may."""
    try:
        check()
    except Refused as refused:
        return refused
    return None if may(user, permission, place) else Refused("NOT_PERMITTED", message)


def against(status: ReviewStatus, refusal: Mapping[str, Any]) -> ReviewStatus:
    """Return the state of an outdated report: it can only be rejected."""
    if not refusal:
        return status
    return replace(
        status,
        cannot_approve=status.cannot_approve or refusal,
        cannot_execute=status.cannot_execute or refusal,
    )


def names_of(keys: Collection[str]) -> dict[str, str]:
    """Return the current names of datasets and columns by stable key, without keys that are not in the metadata."""
    names: dict[str, str] = {}
    for model, fields in _NAME_FIELDS.items():
        for key, *parts in model.objects.filter(key__among=keys).values_list("key", *fields):
            names[str(key)] = ".".join(parts)
    return names


_NAME_FIELDS: dict[Any, tuple[str, ...]] = {
    TargetDataset: ("schema__name", "name"),
    SourceDataset: ("system__short_name", "name"),
    TargetColumn: ("dataset__schema__name", "dataset__name", "name"),
    SourceColumn: ("dataset__system__short_name", "dataset__name", "name"),
}


# --- a preview -------------------------------------------------------------------------------


@dataclass(frozen=True)
class StepRow:
    """Step of a preview, with its statements as one text."""

    number: int
    step: Step
    statement: str


@dataclass
class TableSteps:
    """Steps on one table, with the structure that the first step assumes and the table's size."""

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
    tables: dict[str, TableSteps] = {}
    rows = zip(steps_in(preview), preview.document["steps"], strict=True)
    for number, (step, row) in enumerate(rows, start=1):
        key, name = step.table.key, step.table.qualified_name
        if key not in tables:
            tables[key] = TableSteps(
                key,
                step.assumes.qualified_name if step.assumes else name,
                step.assumes,
                preview.sizes.get(key) or {},
                rewritten=False,
                read=False,
            )
        table = tables[key]
        table.rewritten = table.rewritten or name in estimate.get("rewritten", {})
        table.read = table.read or name in estimate.get("read", {})
        table.steps.append(StepRow(number, step, row["statement"]))
    return list(tables.values())


@dataclass(frozen=True)
class ChangedSize:
    """Total size of the tables that a preview changes; None if a table's size is not known."""

    tables: int
    steps: int
    rows: int | None
    size: int | None
    rewritten_rows: int | None
    rewritten_size: int | None
    rewritten_tables: int


def changed_size(preview: Preview, tables: list[TableSteps]) -> ChangedSize:
    """Return the total size of the changed tables, and of the rewritten ones among them."""
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
    """Return the sum of one size, None if it is unknown for a table. Tables still to be created count as 0."""
    sizes = [0 if table.assumes is None else table.size.get(what) for table in tables]
    return None if any(size is None for size in sizes) else sum(size for size in sizes if size is not None)


# Effects of a report's operations on columns downstream.

# Columns with effects that the part of a report lists.
IMPACTS_SHOWN = 30
_IMPACTS = {
    ops.DROP_COLUMN: DROP,
    ops.RETIRE_COLUMN: DROP,
    ops.RENAME_COLUMN: RENAME,
    ops.RETYPE_COLUMN: RETYPE,
    ops.WIDEN_COLUMN: RETYPE,
}


@dataclass(frozen=True)
class ColumnImpacts:
    """The first ``examined`` of ``count`` changed columns, as far as anything depends on them."""

    shown: list[tuple[Operation, list[Dependent]]]
    examined: int
    count: int


def column_impacts(report: ChangeReport) -> ColumnImpacts:
    """Return the first column operations with what each affects in the current metadata.

    Columns that are not in the metadata any more are omitted: nothing reads them.
    """
    changes = [each for each in operations_of(report) if each.op in _IMPACTS and each.side == ops.BASE]
    keys = [operation.column_key for operation in changes if operation.column_key]
    rows = TargetColumn.objects.filter(key__among=keys).select_related("dataset__schema") if keys else ()
    columns = {str(row.key): row for row in rows}
    known = [operation for operation in changes if operation.column_key in columns]
    impacts = [(each, _impact(each, columns[each.column_key])) for each in known[:IMPACTS_SHOWN]]
    return ColumnImpacts([(each, affected) for each, affected in impacts if affected], len(impacts), len(known))


def _impact(operation: Operation, column: TargetColumn) -> list[Dependent]:
    """Return the effects of an operation; in the metadata, the column has its new type already."""
    return impact_of(column, _IMPACTS[operation.op], type=column.type)


# Lineage graph of a report's datasets and all datasets downstream of them.

# Larger graphs are unreadable; their datasets are only listed.
DRAWN = 300
AFFECTED = "affected"
_WORDS = {
    ops.BLOCKED: "blocked",
    DESTRUCTIVE: "high risk",
    REVIEW: "medium risk",
    SAFE: "low risk",
    AFFECTED: "reads from it",
}


@dataclass(frozen=True)
class DownstreamGraph:
    """Graph of changed datasets and their readers.

    ``changed`` are the datasets with operations, highest risk first; ``reading`` the others downstream of them.
    """

    graph: Graph
    changed: tuple[Node, ...]
    reading: tuple[Node, ...]

    @property
    def is_drawn(self) -> bool:
        return 0 < len(self.graph.nodes) <= DRAWN


def downstream_graph(report: ChangeReport) -> DownstreamGraph:
    """Return the datasets of a report's operations and all datasets downstream of them in the current metadata."""
    operations = operations_of(report)
    described = _metadata_keys(report, {operation.dataset_key for operation in operations})
    lineage = downstream(set(described.values()))
    keys = {node: str(key) for node, key in stable_keys(lineage).items()}
    plain = of_lineage(lineage, lambda node: reverse("dataset_page", args=[keys[node.id]]))
    graph = _with_risks(plain, _risks(operations, lineage, keys, described))
    graph = _with_removed(graph, operations, described, keys, report)
    order = {state: index for index, state in enumerate(_WORDS)}
    nodes = sorted(graph.nodes, key=lambda node: (order[node.state], node.sub, node.title))
    return DownstreamGraph(
        graph,
        tuple(node for node in nodes if node.state != AFFECTED),
        tuple(node for node in nodes if node.state == AFFECTED),
    )


def _metadata_keys(report: ChangeReport, keys: Collection[str]) -> dict[str, str]:
    """Return the stable keys in the metadata by the environment's keys, without datasets that were removed.

    The report's content is large, so it is read only if a stable key is unknown.
    """
    rows = TargetDataset.objects.filter(key__among=keys, history_of__isnull=True)
    metadata_keys = {str(key): str(key) for key in rows.values_list("key", flat=True)}
    others = {key for key in keys if key not in metadata_keys}
    if others:
        desired = (row for row in read_desired(report.content) if row.key in others)
        names = {(row.schema, row.name): row.key for row in desired}
        rows = TargetDataset.objects.filter(name__in={name for _, name in names}, history_of__isnull=True)
        for schema, name, key in rows.values_list("schema__name", "name", "key"):
            if (schema, name) in names:
                metadata_keys[names[schema, name]] = str(key)
    return metadata_keys


def _risks(
    operations: Iterable[Operation], lineage: Lineage, keys: Mapping[str, str], described: Mapping[str, str]
) -> dict[str, str]:
    """Return the highest risk of each node. Operations on a history without a node count for its base."""
    nodes = {key: node for node, key in keys.items()}
    histories = {edge.start: edge.end for edge in lineage.edges if edge.kind == HISTORY}
    by_node: dict[str, list[Operation]] = {}
    for operation in operations:
        base = nodes.get(described.get(operation.dataset_key, ""))
        if base is not None:
            node = histories.get(base, base) if operation.side == ops.HISTORY else base
            by_node.setdefault(node, []).append(operation)
    return {node: worst(group) for node, group in by_node.items()}


def worst(operations: Iterable[Operation]) -> str:
    """Return the highest risk of the operations: blocked, destructive, review or safe."""
    operations = tuple(operations)
    is_blocked = any(operation.decision == ops.BLOCKED for operation in operations)
    return ops.BLOCKED if is_blocked else risk_of(operations)


def _with_risks(graph: Graph, risks: Mapping[str, str]) -> Graph:
    nodes = (_with_state(node, risks.get(node.id, AFFECTED)) for node in graph.nodes)
    return Graph(tuple(nodes), graph.edges)


def _with_state(node: Node, state: str) -> Node:
    """Return the node with a state and its word, and without the mark of a lineage's centre (``here``)."""
    return replace(node, state=state, said=_WORDS[state], here=False)


def _with_removed(
    graph: Graph,
    operations: Iterable[Operation],
    described: Mapping[str, str],
    keys: Mapping[str, str],
    report: ChangeReport,
) -> Graph:
    """Return the graph with datasets that were removed from the metadata, and the edges to their applied readers."""
    by_dataset: dict[str, list[Operation]] = {}
    for operation in operations:
        if operation.dataset_key not in described:
            by_dataset.setdefault(operation.dataset_key, []).append(operation)
    if not by_dataset:
        return graph
    removed = {key: _removed_node(key, group) for key, group in by_dataset.items()}
    nodes = {key: node for node, key in keys.items()}
    nodes |= {known: nodes[key] for known, key in described.items() if key in nodes}
    nodes |= {key: node.id for key, node in removed.items()}
    edges = (
        Edge(removed[source].id, nodes[row.dataset.key])
        for row in read_current(report.content)
        for source in row.dataset.inputs
        if source in removed and row.dataset.key in nodes
    )
    return Graph((*graph.nodes, *removed.values()), (*graph.edges, *edges))


def _removed_node(key: str, operations: list[Operation]) -> Node:
    dataset = next((operation.dataset for operation in operations if operation.side == ops.BASE), operations[0].dataset)
    schema, _, name = dataset.partition(".")
    layer = schema if schema in LAYERS else "rawcore"
    return _with_state(Node(f"gone:{key}", name, f"{schema} · not described", layer), worst(operations))
