"""Steps of a report.

Steps planned for a report's operations each belong to one of them. A difference without an operation gets no step;
if it is in a technical column, planning raises an error. Without operations (a load checks its tables), every
difference becomes a step.

Order: tables are dropped first and views published last. Data checks and type changes come before renames, so they
use the current names. Columns of a history never get narrower.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from architecture.domain import operations as logical
from architecture.domain.operations import Operation
from architecture.domain.steps.features import OPEN, SPARK, created_with, droppable_features
from architecture.domain.steps.planned_changes import follow_operations
from architecture.domain.steps.rename_order import NameTaken, moving_name, order_moves, retired_name
from architecture.domain.steps.step import (
    CREATE_TABLE,
    DROP_FEATURES,
    DROP_TABLE,
    DROP_VIEWS,
    PUBLISH_VIEW,
    RENAME_TABLE,
    Step,
    StepProblem,
    TableShape,
    becomes,
    joined_rewrites,
    shape_of,
    without_features,
)
from architecture.domain.steps.table_changes import Changes, differences
from architecture.domain.tables import ObservedTable, TableSpec
from metadata.domain import naming

# The catalog allows 128 characters; the reserved prefix of a retired table's name needs some of them.
_MAX_BASE_NAME = 100
Owned = Sequence[tuple[int, Operation]]

_PHYSICAL = (logical.ALLOWED, logical.NEEDS_APPROVAL)
# Operations that change neither a table's name nor its columns or data.
_LOGICAL_ONLY = (logical.RETIRE_TABLE, logical.UNRETIRE_TABLE, logical.CHANGE_CONTRACT)


def plan_steps(
    desired: Iterable[TableSpec],
    observed: Mapping[str, ObservedTable],
    operations: Iterable[Operation] | None = None,
    views: Mapping[str, Sequence[str]] | None = None,
    staying: Collection[str] = (),
    *,
    readers: str = SPARK,
    readers_lost: bool = False,
) -> tuple[Step, ...]:
    """Return the steps that turn the observed tables (by stable key) into the desired ones, in order.

    A table that is not desired (retired, or a retained history) is renamed if a desired table takes its name.

    Args:
        desired: tables as they should be.
        observed: tables as they are.
        operations: the report's, in its order; None in a load.
        views: statements that publish the views over a changed table, by its key.
        staying: keys of tables that must not be renamed.
        readers: readers that the environment supports.
        readers_lost: give a table a feature that some readers lack, or leave it, instead of rewriting the table.

    Raises StepProblem or NameTaken.
    """
    specs = tuple(desired)
    shapes = {key: shape for key, table in observed.items() if (shape := shape_of(table)) and not shape.dropped}
    dropped = frozenset(key for key, table in observed.items() if table.dropped)
    plan = _Plan(shapes, dropped, created_with(readers), rewrites=readers == OPEN and not readers_lost)
    if operations is None:
        changes = [differences(table, shapes.get(table.key)) for table in specs]
    else:
        owned = _by_dataset(operations)
        _refuse_moved_keys(owned, plan.shapes, specs)
        plan.drop(owned)
        changed_tables = [(table, owned.get(table.dataset_key, ())) for table in specs]
        historized = {table.dataset_key for table in specs if table.kind == "history"}
        changes = [
            follow_operations(table, plan.shapes.get(table.key), ops, historized=table.dataset_key in historized)
            for table, ops in changed_tables
            if ops
        ]
        plan.make_way(changes, {*staying, *(table.key for table in specs)})
    plan.rename_tables(changes)
    for change in changes:
        plan.change_table(change)
    if not readers_lost:
        for change in changes:
            plan.drop_features(change)
    plan.publish(views or {})
    return check_belongs(plan.steps, required=operations is not None)


def check_belongs(steps: Sequence[Step], *, required: bool = True) -> tuple[Step, ...]:
    """Return the steps unchanged. Raise StepProblem if a step belongs to no operation and this is ``required``."""
    for step in steps if required else ():
        if step.operation is None:
            raise StepProblem(
                "STEP_WITHOUT_OPERATION",
                f"{step.describe()} belongs to no operation of the report; make a new report",
                where=step.dataset,
            )
    return tuple(steps)


def _by_dataset(operations: Iterable[Operation]) -> dict[str, list[tuple[int, Operation]]]:
    """Return the operations of each dataset that change tables, with their ordinals in the report."""
    owned: dict[str, list[tuple[int, Operation]]] = {}
    for ordinal, operation in enumerate(operations):
        if operation.decision == logical.BLOCKED:
            raise StepProblem("BLOCKED", f"{operation.describe()} is blocked", where=operation.dataset)
        if operation.decision in _PHYSICAL and operation.op not in _LOGICAL_ONLY:
            owned.setdefault(operation.dataset_key, []).append((ordinal, operation))
    return owned


def _refuse_moved_keys(
    owned: Mapping[str, Owned], shapes: Mapping[str, TableShape], specs: Iterable[TableSpec]
) -> None:
    """Refuse datasets whose stable key in the metadata differs from their table's (see ``as_known``).

    A dataset that was never applied and was matched by its table's name is exempt.
    """
    described = {table.dataset_key for table in specs}
    for dataset, operations in owned.items():
        if any(item.op == logical.DROP_TABLE for _, item in operations):  # a view replaces the table
            continue
        changed = [operation for _, operation in operations if operation.op != logical.CHANGE_LOGIC]
        if changed and dataset in shapes and dataset not in described:
            raise StepProblem(
                "KEY_MOVED",
                "the dataset has another stable key in the metadata than its table, which was given its name by hand; "
                f"adopt the table as it is (manage.py drift --adopt), or give the dataset the key {dataset}",
                where=changed[0].dataset,
            )


class _Plan:
    """Planned steps, and the shapes of the tables after them."""

    def __init__(
        self,
        shapes: Mapping[str, TableShape],
        dropped: frozenset[str],
        created_with: tuple[str, ...],
        rewrites: bool,
    ) -> None:
        self.shapes, self.dropped, self.created_with, self.rewrites = dict(shapes), dropped, created_with, rewrites
        self.steps: list[Step] = []

    def add(self, step: Step) -> None:
        key = step.table.key
        step = replace(step, assumes=self.shapes.get(key))
        step = without_features(step) if self.rewrites else step
        if joined := joined_rewrites(self.steps[-1], step) if self.steps else None:
            self.steps.pop()
            step = joined
        shape = becomes(step)
        if shape is not None and shape.dropped:
            self.shapes.pop(key)
        elif shape is not None:
            self.shapes[key] = shape
        self.steps.append(step)

    def drop(self, owned: Mapping[str, Owned]) -> None:
        """Add the drops of base tables, first because they free names. A history is never dropped."""
        for dataset, operations in owned.items():
            for ordinal, operation in operations:
                shape = self.shapes.get(dataset)
                if operation.op == logical.DROP_TABLE and operation.side == logical.BASE and shape:
                    self.add(Step(DROP_TABLE, named(dataset, shape.qualified_name), operation=ordinal))

    def rename_tables(self, changes: Sequence[Changes]) -> None:
        """Add the renames of all tables, each when its new name is free."""
        renames = {}
        for change in changes:
            shape = self.shapes.get(change.table.key)
            if change.renamed and shape and shape.qualified_name != change.table.qualified_name:
                renames[shape.qualified_name] = change
        current = {shape.qualified_name: key for key, shape in self.shapes.items()}
        used_names = {change.table.qualified_name for change in renames.values()} | set(current)
        names = dict(renames)

        def aside(name: str) -> str:
            change = names[name]
            between = f"{change.table.schema}.{moving_name(change.table.key, used_names)}"
            names[between] = change
            return between

        # A change of case alone needs no temporary name: the name is only a property and a catalog entry.
        direct = [(old, c) for old, c in renames.items() if old.lower() == c.table.qualified_name.lower()]
        moves = [(old, c.table.qualified_name) for old, c in renames.items() if (old, c) not in direct]
        for old, new in [(old, c.table.qualified_name) for old, c in direct] + order_moves(moves, current, aside):
            self._rename_table(names[old], old, new)

    def make_way(self, changes: Iterable[Changes], staying: Collection[str]) -> None:
        """Add renames of retired tables and histories whose names are taken by this report's tables.

        The report has checked that no other table has these names.
        """
        needed = {
            change.table.qualified_name.lower(): change.renamed_by if change.renamed else change.created_by
            for change in changes
            if change.renamed or change.created
        }
        for key, shape in list(self.shapes.items()):
            name = shape.qualified_name
            if key not in staying and name.lower() in needed:
                new = _retired_table_name(name, key)
                table = replace(named(key, new), kind="history" if name.lower().endswith(naming.HISTORY_SUFFIX) else "")
                self._rename_table(Changes(table, renamed=True, renamed_by=needed[name.lower()]), name, new)

    def _rename_table(self, change: Changes, old: str, new: str) -> None:
        table, ordinal = light(change.table), change.renamed_by
        if table.kind == "history":
            self.add(Step(DROP_VIEWS, table, from_name=old, operation=ordinal))
        self.add(Step(RENAME_TABLE, table, from_name=old, to_name=new, operation=ordinal))

    def change_table(self, change: Changes) -> None:
        """Add the other steps of one table: its creation, or the changes of its columns."""
        if not change.created:
            for step in change.steps(self.shapes.get(change.table.key)):
                self.add(step)
            return
        name = change.table.qualified_name.lower()
        if any(shape.qualified_name.lower() == name for shape in self.shapes.values()):
            raise NameTaken(change.table.qualified_name, where=change.table.qualified_name)
        replaces = change.table.key in self.dropped
        creation = Step(CREATE_TABLE, change.table, replaces=replaces, features=self.created_with)
        self.add(replace(creation, operation=change.created_by))

    def drop_features(self, change: Changes) -> None:
        """Add the rewrite of a table without features that some readers lack, after all other changes of tables."""
        shape = self.shapes.get(change.table.key)
        ordinal = change.drop_features_operation
        if ordinal is None or shape is None:
            return
        if features := droppable_features(shape.closing, (column.name for column in shape.columns)):
            self.add(Step(DROP_FEATURES, light(change.table), features=features, operation=ordinal))

    def publish(self, views: Mapping[str, Sequence[str]]) -> None:
        """Add the views over every changed table, after all changes of tables."""
        last_steps = {step.table.key: step for step in self.steps}
        for key, step in last_steps.items():
            for statement in views.get(key, ()):
                self.add(Step(PUBLISH_VIEW, light(step.table), view=statement, operation=step.operation))


def _retired_table_name(qualified_name: str, key: str) -> str:
    """Return a reserved name for a retired table, with the suffix of a history or event log."""
    schema, _, name = qualified_name.partition(".")
    base = naming.base_name(name)
    return f"{schema}.{retired_name(base[:_MAX_BASE_NAME], key, ())}{name[len(base) :]}"


def light(table: TableSpec) -> TableSpec:
    """Return the table without its columns, for a step on an existing table."""
    return replace(table, columns=())


def named(key: str, qualified_name: str) -> TableSpec:
    """Return a table of which only key and name are known."""
    schema, _, name = qualified_name.partition(".")
    return TableSpec(key, schema, name, "", ())
