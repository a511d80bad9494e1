"""From desired and observed tables to steps, in an order in which each can run when its turn comes.

With a report's operations, steps follow from them and each names the one it belongs to; what differs
and is in no operation is left alone, unless it is a technical column that should follow one: that
raises. Without operations (a load looking at its tables) every difference becomes a step, and
``runs_by_itself`` says which of them a load may do unasked.

Order: checks of the data and changes of type come before renames, so that they are checked under the
names the tables have; dropped tables first and views last. A table of a history never narrows.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from architecture.domain import operations as logical
from architecture.domain.operations import Operation
from architecture.domain.states.tables import ObservedTable, TableSpec
from architecture.domain.steps.names import NameTaken, moving_name, order_moves, retired_name
from architecture.domain.steps.step import (
    ADD_COLUMN,
    CREATE_TABLE,
    DROP_TABLE,
    DROP_VIEWS,
    PUBLISH_VIEW,
    RENAME_TABLE,
    Step,
    StepProblem,
    TableShape,
    becomes,
    shape_of,
)
from architecture.domain.steps.table_changes import Changes, differences, follow_operations
from metadata.domain import naming

# The catalog takes 128 characters; the reserved beginning of a kept history's name needs some of them.
_MOST_OF_A_NAME = 100
Owned = Sequence[tuple[int, Operation]]

_PHYSICAL = (logical.ALLOWED, logical.NEEDS_APPROVAL)
# What a report may say that leaves a table's name, columns and data as they are.
_LOGICAL_ONLY = (logical.RETIRE_TABLE, logical.UNRETIRE_TABLE)


def plan_steps(
    desired: Iterable[TableSpec],
    observed: Mapping[str, ObservedTable],
    operations: Iterable[Operation] | None = None,
    views: Mapping[str, Sequence[str]] | None = None,
    staying: Collection[str] = (),
) -> tuple[Step, ...]:
    """Steps that bring the observed tables (by stable key) to the desired ones, in order.

    ``operations`` are a report's, in its order; ``views`` the statements that publish views over a
    table, by its key, run after whatever touched it. What a report lets take a name that a table holds
    which is not ``desired`` makes that table give it away: it is retired, or a history that is only kept.
    ``staying`` are keys of tables that do not. StepProblem or NameTaken for what cannot be done.
    """
    specs = tuple(desired)
    shapes = {key: shape for key, table in observed.items() if (shape := shape_of(table)) and not shape.dropped}
    plan = _Plan(shapes, frozenset(key for key, table in observed.items() if table.dropped))
    if operations is None:
        changes = [differences(table, shapes.get(table.key)) for table in specs]
    else:
        owned = _by_dataset(operations)
        _refuse_moved_keys(owned, plan.shapes, specs)
        plan.drop(owned)
        wanted = [(table, owned.get(table.dataset_key, ())) for table in specs]
        changes = [follow_operations(table, plan.shapes.get(table.key), ops) for table, ops in wanted if ops]
        plan.make_way(changes, {*staying, *(table.key for table in specs)})
    plan.rename_tables(changes)
    for change in changes:
        plan.change_table(change)
    plan.publish(views or {})
    return check_belongs(plan.steps, required=operations is not None)


def runs_by_itself(step: Step) -> bool:
    """Return whether a load may run the step without approval: it removes nothing and changes no row."""
    return step.op in (CREATE_TABLE, ADD_COLUMN, PUBLISH_VIEW)


def check_belongs(steps: Sequence[Step], *, required: bool = True) -> tuple[Step, ...]:
    """The steps as they are; StepProblem if one belongs to no operation of the report."""
    for step in steps if required else ():
        if step.operation is None:
            raise StepProblem(
                "STEP_WITHOUT_OPERATION",
                f"{step.describe()} belongs to no operation of the report; make a new report",
                where=step.dataset,
            )
    return tuple(steps)


def _by_dataset(operations: Iterable[Operation]) -> dict[str, list[tuple[int, Operation]]]:
    """Return the operations of each dataset, with their positions in the report."""
    owned: dict[str, list[tuple[int, Operation]]] = {}
    for place, operation in enumerate(operations):
        if operation.decision == logical.BLOCKED:
            raise StepProblem("BLOCKED", f"{operation.describe()} is blocked", where=operation.dataset)
        if operation.decision in _PHYSICAL and operation.op not in _LOGICAL_ONLY:
            owned.setdefault(operation.dataset_key, []).append((place, operation))
    return owned


def _refuse_moved_keys(
    owned: Mapping[str, Owned], shapes: Mapping[str, TableShape], specs: Iterable[TableSpec]
) -> None:
    """Tables lie under their keys, so steps go to those that are described under theirs (``as_known`` sees to it).

    What nothing was applied of, and is known by the name that somebody gave its table, is not.
    """
    described = {table.dataset_key for table in specs}
    for dataset, operations in owned.items():
        if any(one.op == logical.DROP_TABLE for _, one in operations):  # with whatever else is said of a view to be
            continue
        changed = [one for _, one in operations if one.op != logical.CHANGE_LOGIC]
        if changed and dataset in shapes and dataset not in described:
            raise StepProblem(
                "KEY_MOVED",
                "the dataset has another stable key in the metadata than its table, which was given its name by hand; "
                f"adopt the table as it is (manage.py drift --adopt), or give the dataset the key {dataset}",
                where=changed[0].dataset,
            )


class _Plan:
    """Steps so far, and what the tables look like after them."""

    def __init__(self, shapes: Mapping[str, TableShape], dropped: frozenset[str]) -> None:
        self.shapes, self.dropped = dict(shapes), dropped
        self.steps: list[Step] = []

    def add(self, step: Step) -> None:
        key = step.table.key
        step = replace(step, assumes=self.shapes.get(key))
        shape = becomes(step)
        if shape is not None and shape.dropped:
            self.shapes.pop(key)
        elif shape is not None:
            self.shapes[key] = shape
        self.steps.append(step)

    def drop(self, owned: Mapping[str, Owned]) -> None:
        """Drops come first: they free names. A base table goes, its history is never dropped with it."""
        for dataset, operations in owned.items():
            for place, operation in operations:
                shape = self.shapes.get(dataset)
                if operation.op == logical.DROP_TABLE and operation.side == logical.BASE and shape:
                    self.add(Step(DROP_TABLE, named(dataset, shape.qualified_name), operation=place))

    def rename_tables(self, changes: Sequence[Changes]) -> None:
        """All tables' new names, in an order in which each is free."""
        wanted = {}
        for change in changes:
            shape = self.shapes.get(change.table.key)
            if change.renamed and shape and shape.qualified_name != change.table.qualified_name:
                wanted[shape.qualified_name] = change
        held = {shape.qualified_name: key for key, shape in self.shapes.items()}
        taken = {change.table.qualified_name for change in wanted.values()} | set(held)
        names = dict(wanted)

        def aside(name: str) -> str:
            change = names[name]
            between = f"{change.table.schema}.{moving_name(change.table.key, taken)}"
            names[between] = change
            return between

        # A change of case alone needs no way round: the name is a property and a catalog entry.
        direct = [(old, c) for old, c in wanted.items() if old.lower() == c.table.qualified_name.lower()]
        moves = [(old, c.table.qualified_name) for old, c in wanted.items() if (old, c) not in direct]
        for old, new in [(old, c.table.qualified_name) for old, c in direct] + order_moves(moves, held, aside):
            self._rename_table(names[old], old, new)

    def make_way(self, changes: Iterable[Changes], staying: Collection[str]) -> None:
        """Retired tables and kept histories give their names to tables of this report that are to be called so.

        The report has seen to it that nothing else holds these names and keeps them.
        """
        needed = {
            change.table.qualified_name.lower(): change.renamed_by if change.renamed else change.created_by
            for change in changes
            if change.renamed or change.created
        }
        for key, shape in list(self.shapes.items()):
            name = shape.qualified_name
            if key not in staying and name.lower() in needed:
                new = _out_of_the_way(name, key)
                table = replace(named(key, new), kind="history" if name.lower().endswith(naming.HISTORY_SUFFIX) else "")
                self._rename_table(Changes(table, renamed=True, renamed_by=needed[name.lower()]), name, new)

    def _rename_table(self, change: Changes, old: str, new: str) -> None:
        table, place = light(change.table), change.renamed_by
        if table.kind == "history":
            self.add(Step(DROP_VIEWS, table, from_name=old, operation=place))
        self.add(Step(RENAME_TABLE, table, from_name=old, to_name=new, operation=place))

    def change_table(self, change: Changes) -> None:
        """Everything else that one table needs: it is made, or its columns are changed."""
        if not change.created:
            for step in change.steps(self.shapes.get(change.table.key)):
                self.add(step)
            return
        name = change.table.qualified_name.lower()
        if any(shape.qualified_name.lower() == name for shape in self.shapes.values()):
            raise NameTaken(change.table.qualified_name, where=change.table.qualified_name)
        replaces = change.table.key in self.dropped
        self.add(Step(CREATE_TABLE, change.table, replaces=replaces, operation=change.created_by))

    def publish(self, views: Mapping[str, Sequence[str]]) -> None:
        """Views over every table that was touched, once all tables are as they should be."""
        touched = {step.table.key: step for step in self.steps}
        for key, step in touched.items():
            for statement in views.get(key, ()):
                self.add(Step(PUBLISH_VIEW, light(step.table), view=statement, operation=step.operation))


def _out_of_the_way(qualified_name: str, key: str) -> str:
    """A reserved name that still says what the table is, a history or its memory included."""
    schema, _, name = qualified_name.partition(".")
    base = naming.base_name(name)
    return f"{schema}.{retired_name(base[:_MOST_OF_A_NAME], key, ())}{name[len(base) :]}"


def light(table: TableSpec) -> TableSpec:
    """The table without its columns: what a step over an existing table needs of it."""
    return replace(table, columns=())


def named(key: str, qualified_name: str) -> TableSpec:
    """A table of which only key and name are known."""
    schema, _, name = qualified_name.partition(".")
    return TableSpec(key, schema, name, "", ())
