"""Steps of a report: planning, JSON form, resumption.

With a report's operations, each step belongs to one of them. A difference without an operation is left alone; only
a technical column that should follow an operation raises. Without operations (a load checks its tables) every
difference becomes a step, and ``runs_by_itself`` selects those that a load may run without approval.

Order: checks of the data and type changes come before renames, so they use the names the tables have; dropped
tables come first and views last. A history's table never narrows.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from architecture.domain import operations as logical
from architecture.domain.operations import Operation
from architecture.domain.steps.features import OPEN, SPARK, created_with
from architecture.domain.steps.step import (
    ADD_COLUMN,
    CREATE_TABLE,
    DROP_TABLE,
    DROP_VIEWS,
    PUBLISH_VIEW,
    RENAME_TABLE,
    Rehashed,
    Retyped,
    Step,
    StepProblem,
    TableShape,
    assumed_by,
    becomes,
    done_by,
    half_done_by,
    moved,
    shape_of,
    without_features,
)
from architecture.domain.steps.table_changes import (
    Changes,
    NameTaken,
    differences,
    follow_operations,
    moving_name,
    order_moves,
    retired_name,
)
from architecture.domain.tables import ColumnSpec, ObservedColumn, ObservedTable, TableSpec
from metadata.domain import naming

# The catalog takes 128 characters; the reserved prefix of a retained history's name needs some of them.
_MOST_OF_A_NAME = 100
Owned = Sequence[tuple[int, Operation]]

_PHYSICAL = (logical.ALLOWED, logical.NEEDS_APPROVAL)
# Operations that leave a table's name, columns and data unchanged.
_LOGICAL_ONLY = (logical.RETIRE_TABLE, logical.UNRETIRE_TABLE)


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
    """Return steps that turn the observed tables (by stable key) into the desired ones, in order.

    ``operations`` are a report's, in its order; ``views`` the statements that publish views over a table, by its
    key, run after each step on it. If a report's table takes a name of a table that is not ``desired``, the latter
    (retired, or a retained history) is renamed. ``staying`` are keys of tables that are not renamed. ``readers`` are
    those that the environment asks for; with ``readers_lost`` a table may get a feature that some of them do not
    know, instead of being rewritten. Raises StepProblem or NameTaken.
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
    """Return the steps unchanged. Raise StepProblem if a step belongs to no operation of the report."""
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
    """Refuse desired tables under a key other than the applied one (``as_known`` translates keys).

    A dataset that was never applied and is matched by its table's name is exempt.
    """
    described = {table.dataset_key for table in specs}
    for dataset, operations in owned.items():
        if any(item.op == logical.DROP_TABLE for _, item in operations):  # with all other changes of the new view
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
    """Steps so far, and the resulting tables."""

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
        shape = becomes(step)
        if shape is not None and shape.dropped:
            self.shapes.pop(key)
        elif shape is not None:
            self.shapes[key] = shape
        self.steps.append(step)

    def drop(self, owned: Mapping[str, Owned]) -> None:
        """Add drops first, because they free names. A base table is dropped, its history never with it."""
        for dataset, operations in owned.items():
            for place, operation in operations:
                shape = self.shapes.get(dataset)
                if operation.op == logical.DROP_TABLE and operation.side == logical.BASE and shape:
                    self.add(Step(DROP_TABLE, named(dataset, shape.qualified_name), operation=place))

    def rename_tables(self, changes: Sequence[Changes]) -> None:
        """Add the renames of all tables, each when its new name is free."""
        wanted = {}
        for change in changes:
            shape = self.shapes.get(change.table.key)
            if change.renamed and shape and shape.qualified_name != change.table.qualified_name:
                wanted[shape.qualified_name] = change
        current = {shape.qualified_name: key for key, shape in self.shapes.items()}
        used_names = {change.table.qualified_name for change in wanted.values()} | set(current)
        names = dict(wanted)

        def aside(name: str) -> str:
            change = names[name]
            between = f"{change.table.schema}.{moving_name(change.table.key, used_names)}"
            names[between] = change
            return between

        # A change of case alone needs no way round: the name is a property and a catalog entry.
        direct = [(old, c) for old, c in wanted.items() if old.lower() == c.table.qualified_name.lower()]
        moves = [(old, c.table.qualified_name) for old, c in wanted.items() if (old, c) not in direct]
        for old, new in [(old, c.table.qualified_name) for old, c in direct] + order_moves(moves, current, aside):
            self._rename_table(names[old], old, new)

    def make_way(self, changes: Iterable[Changes], staying: Collection[str]) -> None:
        """Rename retired tables and histories whose names this report's tables take.

        The report has checked that no other table uses these names.
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
        """Add all other steps of one table: its creation, or changes of its columns."""
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

    def publish(self, views: Mapping[str, Sequence[str]]) -> None:
        """Add views over every changed table, after all tables are changed."""
        touched = {step.table.key: step for step in self.steps}
        for key, step in touched.items():
            for statement in views.get(key, ()):
                self.add(Step(PUBLISH_VIEW, light(step.table), view=statement, operation=step.operation))


def _out_of_the_way(qualified_name: str, key: str) -> str:
    """Return a reserved name that shows the kind of table: retired, history or event log."""
    schema, _, name = qualified_name.partition(".")
    base = naming.base_name(name)
    return f"{schema}.{retired_name(base[:_MOST_OF_A_NAME], key, ())}{name[len(base) :]}"


def light(table: TableSpec) -> TableSpec:
    """Return the table without its columns, as steps over an existing table need it."""
    return replace(table, columns=())


def named(key: str, qualified_name: str) -> TableSpec:
    """Return a table with key and name only."""
    schema, _, name = qualified_name.partition(".")
    return TableSpec(key, schema, name, "", ())


# Steps as JSON in the rows of a preview.


def as_row(step: Step) -> dict[str, Any]:
    """Return all fields of a step; ``of_row`` reads them."""
    return asdict(step)


def of_row(row: Mapping[str, Any]) -> Step:
    """Return the step that ``as_row`` wrote, also after JSON. Raise TypeError for unknown fields."""
    column = row["column"]
    return Step(
        **{
            **row,
            "table": _table(row["table"]),
            "column": None if column is None else _column(column),
            "retyped": tuple(Retyped(**item) for item in row["retyped"]),
            "rehashed": tuple(Rehashed(**{**item, "parts": _pairs(item["parts"])}) for item in row.get("rehashed", ())),
            "stamps": _pairs(row["stamps"]),
            "untied": tuple(row["untied"]),
            "features": tuple(row.get("features", ())),
            "restored": _shape(row["restored"]),
            "assumes": _shape(row["assumes"]),
        }
    )


def _table(row: Mapping[str, Any]) -> TableSpec:
    columns = tuple(_column(column) for column in row["columns"])
    return TableSpec(**{**row, "columns": columns, "partition_by": tuple(row["partition_by"])})


def _column(row: Mapping[str, Any]) -> ColumnSpec:
    return ColumnSpec(**{**row, "hash_of": _pairs(row.get("hash_of", ()))})


def _pairs(rows: Iterable[Sequence[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((first, other) for first, other in rows)


def _shape(row: Mapping[str, Any] | None) -> TableShape | None:
    if row is None:
        return None
    columns = tuple(ObservedColumn(**column) for column in row["columns"])
    lists = {name: tuple(row.get(name, ())) for name in ("partition_by", "features")}
    return TableShape(**{**row, **lists, "columns": columns})


# Steps still to run when an execution is resumed, given the observed tables. The steps of one table form a list in
# which each assumes the result of the one before; tables are independent here, since the whole list runs in order.
# When a worker dies, at most one step has run without being recorded, so a table matches its recorded steps or one
# step more. In any other state it was changed from outside, and nothing is run.


def steps_left(
    steps: Sequence[Step], *, finished: Collection[int], observed: Mapping[str, ObservedTable]
) -> tuple[int, ...]:
    """Return the ordinals of the steps still to run, in order. ``finished`` are the recorded ones.

    All tables are checked before anything is returned. Raises StepProblem TABLE_MOVED for the first one that does
    not match its finished steps.
    """
    by_table: dict[str, list[int]] = {}
    for place, step in enumerate(steps):
        by_table.setdefault(step.table.key, []).append(place)
    left: list[int] = []
    for key, places in by_table.items():
        own = [steps[place] for place in places]
        done = sum(place in finished for place in places)
        _must_stand(own, done, observed.get(key))
        left.extend(places[done:])
    return tuple(sorted(left))


def _must_stand(steps: Sequence[Step], done: int, observed: ObservedTable | None) -> None:
    """Raise StepProblem unless the table matches its ``done`` steps, or the next one in whole or in part."""
    if done == len(steps):
        last = steps[-1]
        if not _stands_behind(last, observed):
            raise moved(last, observed)
        return
    following = steps[done]
    if not (assumed_by(following, observed) or done_by(following, observed) or half_done_by(following, observed)):
        raise moved(following, observed)


def _stands_behind(last: Step, observed: ObservedTable | None) -> bool:
    return done_by(last, observed) if last.leaves_trace else assumed_by(last, observed)
