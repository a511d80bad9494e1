"""Operations on one dataset and its history: tables first, then their columns."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from architecture.domain import operations as ops
from architecture.domain import policy_rules
from architecture.domain.change_policy import PolicySet
from architecture.domain.operations import BASE, HISTORY, Operation, Warning
from architecture.domain.planning.columns import ColumnPlan, plan_columns
from architecture.domain.planning.drafts import Draft
from architecture.domain.planning.kept_deliveries import describe_changed_retention, removes_deliveries
from architecture.domain.planning.logic import (
    Moved,
    Renames,
    column_moved,
    dataset_moved,
    key_moved,
    match_columns,
)
from architecture.domain.planning.sensitive_copies import describe_sensitive_copies
from architecture.domain.planning.sides import Side
from architecture.domain.states.current_state import Placed, Table
from architecture.domain.steps.features import OPEN, droppable_features
from metadata.domain import naming
from metadata.domain.state import DatasetState

TABLES = "tables"
# Operations that change how loads compute or compare rows, but not the structure.
_LOGIC = frozenset({ops.CHANGE_LOGIC, ops.UNRETIRE_TABLE, ops.UNRETIRE_COLUMN})


@dataclass
class DatasetPlan:
    """Plan of one dataset: drafts, warnings, and the column names in use, by table."""

    drafts: list[Draft] = field(default_factory=list)
    warnings: list[Warning] = field(default_factory=list)
    names_in_use: dict[str, frozenset[str]] = field(default_factory=dict)

    def add(self, plan: ColumnPlan, side: str, key: str) -> None:
        self.drafts += plan.drafts
        self.names_in_use[f"{side} {key}"] = frozenset(plan.names_in_use)
        known = {(warning.code, warning.column) for warning in self.warnings}
        self.warnings += [warning for warning in plan.warnings if (warning.code, warning.column) not in known]


def table_name(table: Table) -> str:
    return table.qualified_name.lower()


def plan_new(after: Placed, *, is_read: bool = False) -> DatasetPlan:
    """Return the plan of a new dataset; empty if it is retired. ``is_read``: applied datasets already read it."""
    plan = DatasetPlan()
    if after.state.active:
        for side, table in ((BASE, after.base), (HISTORY, after.history)):
            if table is not None:
                plan.drafts.append(replace(_created(after, side, table), alters=is_read and side == BASE))
        if after.base is not None:
            plan.drafts += _sensitive_copies(after, after.base, None, after.state)
    return plan


def _sensitive_copies(
    placed: Placed, table: Table, before: DatasetState | None, after: DatasetState
) -> Iterator[Draft]:
    """Yield the operation that begins to copy sensitive columns, if there is one."""
    message = describe_sensitive_copies(before.load_policy if before is not None else None, after.load_policy)
    if message:
        code = policy_rules.SENSITIVE_COPIED
        yield Draft(_on_table(placed, BASE, ops.CHANGE_LOGIC, table, code=code, message=message))


def plan_gone(before: Placed) -> DatasetPlan:
    """Return the plan of a dataset that was removed from the metadata: its table is dropped, its history retained."""
    plan = DatasetPlan()
    if before.keeps_history:
        _keep_history(plan, before, "the dataset is gone")
    if before.base is not None:
        operation = _on_table(before, BASE, ops.DROP_TABLE, before.base, destructive=not before.base.view)
        plan.drafts.append(Draft(operation, frees=table_name(before.base), space=TABLES))
    return plan


def plan_pair(before: Placed, after: Placed, set_: PolicySet, renames: Renames) -> DatasetPlan:
    """Return the plan of an existing dataset that is also desired."""
    plan = DatasetPlan()
    if not after.state.active and before.state.active:
        _retire(plan, before)
    if not after.state.active and not _is_read_as_view(before, after):
        return plan
    if after.state.active and not before.state.active:
        _unretire(plan, before, after)
    if before.base is None:
        _make_missing(plan, before, after, renames)
        _plan_history(plan, before, after, set_, renames)
        return plan
    assert after.base is not None  # every desired dataset has a base table
    _rename(plan, before, BASE, before.base, after.base)
    if before.base.view != after.base.view:
        _materialize(plan, before, after, set_, renames)
        return plan
    columns = _columns(before, after, BASE, before.base, after.base, set_, renames)
    plan.add(columns, BASE, before.state.key)
    plan.drafts += _logic(before, after, columns, renames)
    if after.state.layer == "raw" and before.base.partition_by != after.base.partition_by:
        plan.drafts.append(_repartition(before, after.base))
    plan.drafts += _drop_features(before, BASE, before.base, after.base, set_)
    _plan_history(plan, before, after, set_, renames)
    return plan


def _repartition(before: Placed, wanted: Table) -> Draft:
    assert before.base is not None
    by = ", ".join(wanted.partition_by)
    message = f"its rows are partitioned by {by}" if by else "its rows are no longer partitioned"
    return Draft(_on_table(before, BASE, ops.REBUILD_TABLE, before.base, message=message))


def plan_set_aside(before: Placed, after: Placed, set_: PolicySet, renames: Renames) -> DatasetPlan:
    """Return the plan of a dataset whose former name also exists: its tables stay, and loads use its desired logic."""
    plan = plan_pair(before, after, set_, renames)
    drafts = [
        draft
        for draft in plan.drafts
        if draft.operation.op in _LOGIC or draft.operation.code == policy_rules.MATERIALIZATION
    ]
    return DatasetPlan(drafts)


def _is_read_as_view(before: Placed, after: Placed) -> bool:
    """Return True if the dataset is and stays a view: loads of its readers run its logic, even if it is retired."""
    return before.base is not None and before.base.view and after.base is not None and after.base.view


def _columns(
    before: Placed,
    after: Placed,
    side: str,
    table: Table,
    wanted: Table,
    set_: PolicySet,
    renames: Renames,
    base: Iterable[Draft] = (),
) -> ColumnPlan:
    operations = [draft.operation for draft in base]
    return plan_columns(
        Side(
            side=side,
            dataset_key=before.state.key,
            desired_key=after.state.key,
            before=table,
            after=wanted,
            compares=before.keeps_history and after.keeps_history,
            drops_history_columns=set_.severity("DROP_HISTORY_COLUMN") != policy_rules.BLOCK,
            renames=renames,
            described={column.key for column in after.state.columns},
            retyped={operation.column_key for operation in operations if operation.op == ops.RETYPE_COLUMN},
            doubtful={
                operation.column_key for operation in operations if operation.code == policy_rules.POSSIBLE_RENAME
            },
            readers=set_.readers,
        )
    )


def _on_table(placed: Placed, side: str, op: str, table: Table, **more: Any) -> Operation:
    return Operation(op, table.qualified_name, placed.state.key, side, **more)


def _created(placed: Placed, side: str, table: Table, message: str = "") -> Draft:
    operation = _on_table(placed, side, ops.CREATE_TABLE, table, message=message)
    return Draft(operation, takes=table_name(table), space=TABLES)


def _rename(plan: DatasetPlan, before: Placed, side: str, table: Table, wanted: Table) -> None:
    if table.qualified_name != wanted.qualified_name:
        operation = _on_table(
            before, side, ops.RENAME_TABLE, table, from_=table.qualified_name, to=wanted.qualified_name
        )
        plan.drafts.append(Draft(operation, takes=table_name(wanted), frees=table_name(table), space=TABLES))


def _retire(plan: DatasetPlan, before: Placed) -> None:
    message = "the dataset is no longer loaded; its tables stay as they are"
    for side, table in ((BASE, before.base), (HISTORY, before.history if before.keeps_history else None)):
        if table is not None:
            plan.drafts.append(Draft(_on_table(before, side, ops.RETIRE_TABLE, table, message=message)))
    if before.base is None:
        name = before.state.qualified_name
        plan.drafts.append(Draft(Operation(ops.RETIRE_TABLE, name, before.state.key, message=message)))


def _unretire(plan: DatasetPlan, before: Placed, after: Placed) -> None:
    message = "the dataset is loaded again"
    if before.base is not None:
        plan.drafts.append(Draft(_on_table(before, BASE, ops.UNRETIRE_TABLE, before.base, message=message)))
    if before.keeps_history and after.keeps_history and before.history is not None:
        plan.drafts.append(Draft(_on_table(before, HISTORY, ops.UNRETIRE_TABLE, before.history, message=message)))


def _keep_history(plan: DatasetPlan, before: Placed, why: str) -> None:
    assert before.history is not None  # of a dataset that keeps history
    name = before.history.qualified_name
    message = f"{why}; every version stays where it is"
    plan.drafts.append(Draft(_on_table(before, HISTORY, ops.RETIRE_TABLE, before.history, message=message)))
    text = f"{why}, and {name} is kept as it is, without new versions; drop it by hand if it is no longer needed"
    plan.warnings.append(Warning("HISTORY_KEPT", name, message=text))


def _make_missing(plan: DatasetPlan, before: Placed, after: Placed, renames: Renames) -> None:
    """Add the operations that create a missing table again, with desired logic compared with its history's."""
    if BASE in before.missing:
        plan.warnings.append(_missing(before.state.qualified_name))
    assert after.base is not None  # every desired dataset has a base table
    created = _created(before, BASE, after.base)
    code, differs = _since_followed(before.state, after.state, renames)
    continues = before.history is not None and before.keeps_history and after.keeps_history
    if differs:
        code = code if continues and code != policy_rules.HISTORY_RESUMED else ""
        message = ", ".join(("the table is made anew", *differs))
        operation = replace(created.operation, code=code, message=message, destructive=code == policy_rules.KEY_CHANGE)
        created = replace(created, operation=operation, alters=True)
    plan.drafts.append(created)


def _missing(name: str) -> Warning:
    message = (
        "was made before and is not in the warehouse; it is made anew, empty. If it was lost, "
        "restore it first; if it was dropped on purpose, nothing is left to do"
    )
    return Warning("MISSING_TABLE", name, message=message)


def _materialize(plan: DatasetPlan, before: Placed, after: Placed, set_: PolicySet, renames: Renames) -> None:
    """Add the operations that replace a table by a view, or a view by an empty table; no table is altered."""
    assert before.base is not None
    name = before.base.qualified_name
    if before.base.view:
        message = "a table takes the view's place"
        created = Operation(
            ops.CREATE_TABLE, name, before.state.key, BASE, code=policy_rules.MATERIALIZATION, message=message
        )
        plan.drafts.append(Draft(created))
        _plan_history(plan, before, after, set_, renames)
        return
    operation = _on_table(
        before,
        BASE,
        ops.DROP_TABLE,
        before.base,
        code=policy_rules.MATERIALIZATION,
        message="a view takes the table's place",
        destructive=True,
    )
    plan.drafts.append(Draft(operation))
    if before.keeps_history:
        _keep_history(plan, before, "the dataset becomes a view")


def _plan_history(plan: DatasetPlan, before: Placed, after: Placed, set_: PolicySet, renames: Renames) -> None:
    if after.history is None:
        if before.keeps_history:
            _keep_history(plan, before, "history is switched off")
        return
    if before.history is None:
        if HISTORY in before.missing:
            plan.warnings.append(_missing(f"{before.state.schema}.{naming.history_name(before.state.name)}"))
        plan.drafts.append(_created(before, HISTORY, after.history, message="versions begin with the next load"))
        return
    if not before.keeps_history:
        plan.drafts.append(Draft(_resumed(before, after, renames)))
    _rename(plan, before, HISTORY, before.history, after.history)
    columns = _columns(before, after, HISTORY, before.history, after.history, set_, renames, plan.drafts)
    plan.add(columns, HISTORY, before.state.key)
    plan.drafts += _drop_features(before, HISTORY, before.history, after.history, set_)


def _drop_features(before: Placed, side: str, table: Table, wanted: Table, set_: PolicySet) -> list[Draft]:
    """Return the rewrite of a table that has features which some readers of the environment lack."""
    names = (column.name for column in (*table.columns, *wanted.columns))
    features = droppable_features(table.closing, names) if set_.readers == OPEN else ()
    message = f"some readers of the environment lack {' and '.join(features)}"
    return [Draft(_on_table(before, side, ops.DROP_FEATURES, table, message=message))] if features else []


def _resumed(before: Placed, after: Placed, renames: Renames) -> Operation:
    """Return the operation that resumes a retained history, decided by the changes since its last logic."""
    assert before.history is not None
    code, differs = _since_followed(before.followed, after.state, renames)
    message = ", ".join(("the history that was kept is taken up again", *differs))
    destructive = code == policy_rules.KEY_CHANGE
    return _on_table(
        before, HISTORY, ops.UNRETIRE_TABLE, before.history, code=code, message=message, destructive=destructive
    )


def _since_followed(
    followed: DatasetState | None, wanted: DatasetState, renames: Renames
) -> tuple[str, tuple[str, ...]]:
    if followed is None:
        return policy_rules.HISTORY_RESUMED, ("the logic that it last followed is not known",)
    matching = match_columns(followed.columns, wanted.columns)
    names = {pair.before.name: pair.after.name for pair in matching.known}
    moved = dataset_moved(followed, wanted, names, renames)
    if key_moved(matching.known, matching.new, matching.gone):
        return policy_rules.KEY_CHANGE, ("the business key is made up of other columns than when it was last followed",)
    for pair in matching.known:
        of_column = column_moved(pair, renames, wanted.key)
        for what in of_column.what:
            moved = moved.and_(f"of {pair.after.name} {what}", compares=of_column.compares)
    if moved.form:
        return policy_rules.HISTORY_FORM, (*moved.what, f"it differs in {' and '.join(moved.form)}")
    return policy_rules.HISTORY_DIFFERS if moved.compares else policy_rules.HISTORY_RESUMED, moved.what


def _logic(before: Placed, after: Placed, columns: ColumnPlan, renames: Renames) -> Iterable[Draft]:
    assert before.base is not None
    matching = columns.matching
    historized = before.keeps_history and after.keeps_history
    names = {pair.before.name: pair.after.name for pair in matching.known}
    moved = dataset_moved(before.state, after.state, names, renames)
    if key_moved(matching.known, matching.new, matching.gone):
        if historized:
            message = "the business key is made up of other columns"
            operation = _on_table(
                before,
                BASE,
                ops.CHANGE_LOGIC,
                before.base,
                code=policy_rules.KEY_CHANGE,
                message=message,
                destructive=True,
            )
            yield Draft(operation)
        else:
            moved = moved.and_("the business key is made up of other columns", compares=True)
    if moved:
        yield Draft(_logic_operation(before, after, moved), alters=moved.alters)
    if before.base is not None:
        yield from _sensitive_copies(before, before.base, before.state, after.state)
    if removes_deliveries(before.state, after.state):
        message = describe_changed_retention(before.state, after.state)
        code = policy_rules.FEWER_DELIVERIES
        yield Draft(
            _on_table(before, BASE, ops.CHANGE_LOGIC, before.base, code=code, message=message, destructive=True)
        )


def _logic_operation(before: Placed, after: Placed, moved: Moved) -> Operation:
    """Return the logic operation, with the code HISTORY_FORM or HISTORY_DIFFERS if a history is affected."""
    assert before.base is not None
    what, code = moved.what, ""
    if moved.form and before.history is not None and after.keeps_history:
        what, code = (*what, f"it differs in {' and '.join(moved.form)}"), policy_rules.HISTORY_FORM
    elif moved.compares and before.keeps_history and after.keeps_history:
        code = policy_rules.HISTORY_DIFFERS
    return _on_table(before, BASE, ops.CHANGE_LOGIC, before.base, code=code, message=", ".join(what))
