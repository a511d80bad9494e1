"""Applied state after each finished operation.

The state advances with each finished operation, so it never includes a change that was not made, and after an
interrupted execution a new report plans the remaining operations. States are flat
(``architecture.domain.states.flat_states``).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from architecture.domain import operations as ops
from architecture.domain import policy_rules
from architecture.domain.data_contracts import desired_contract, is_contract_unchanged
from architecture.domain.operations import HISTORY, Operation
from architecture.domain.planning.logic import match_columns, policy_choices
from architecture.domain.states.flat_states import FOREIGN_KEY, flat
from architecture.domain.type_changes import TypeChange, classify
from elevata.core.errors import MetadataError
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.load_policy import with_keeping, with_rules_of
from metadata.domain.state import ColumnState, DatasetState

# Fields that a change of a dataset's logic sets.
LOGIC_FIELDS = ("filter", "inputs", "load_policy", "history_policy", "hash_version", "select", "increment")


def advance(applied: DatasetState | None, operation: Operation, desired: DatasetState | None) -> DatasetState | None:
    """Return the applied state of a dataset after ``operation``; None once its table is dropped.

    ``applied`` is None for a dataset without a table yet, ``desired`` for one that was removed from the metadata.
    Raises ValueError for an operation that does not fit these states.
    """
    desired = with_rules_of(flat(desired), applied) if desired is not None else None
    if operation.op == ops.CREATE_TABLE:
        return _create_table(applied, operation, _require(desired, operation))
    history = operation.op in (ops.RENAME_TABLE, ops.RETIRE_TABLE) and operation.side == HISTORY
    if applied is None and (history or operation.op == ops.CHANGE_CONTRACT):
        return None  # A history and a contract outlive their dropped base table: they change without applied state.
    if applied is None:
        raise ValueError(f"{operation.describe()}: the dataset was never applied")
    state = _STEPS[operation.op](flat(applied), operation, desired)
    if state is None or desired is None:
        return state
    if desired.active and not follows_history(desired):
        # From the first operation of such a plan on, loads do not write the history.
        state = replace(state, historize=False)
    return adopt_metadata(state, desired)


def follows_history(dataset: DatasetState | None) -> bool:
    """Return True if loads compare with the dataset's history and write versions."""
    return dataset is not None and dataset.historize and dataset.materialization == "table"


def adopt_metadata(applied: DatasetState, desired: DatasetState) -> DatasetState:
    """Return ``applied`` with the changes that need no operation: keys, former names, removed NOT NULL, consumers.

    The next report compares with them. Rules that an older release did not record are taken over, too.
    """
    applied, desired = with_rules_of(flat(applied), desired), flat(desired)
    pairs = match_columns(applied.columns, desired.columns).pairs
    # A retired table gets no column operations: a column of the same name may be a different one.
    criteria = ("key", "name") if desired.active or desired.materialization == "view" else ("key",)
    known = {pair.before.key: pair.after for pair in pairs if pair.by in criteria}
    columns = tuple(_adopt_column(column, known.get(column.key)) for column in applied.columns)
    same_name = applied.qualified_name.lower() == desired.qualified_name.lower()
    return replace(
        applied,
        key=desired.key,
        history_key=desired.history_key or applied.history_key,
        former_names=desired.former_names if same_name else applied.former_names,
        columns=columns,
        exposures=desired.exposures,
    )


def _adopt_column(column: ColumnState, desired: ColumnState | None) -> ColumnState:
    if desired is None:
        return column
    renamed = column.name.lower() != desired.name.lower()
    return replace(
        column,
        key=desired.key,
        former_names=column.former_names if renamed else desired.former_names,
        nullable=column.nullable or desired.nullable,
    )


def is_reached(applied: DatasetState | None, desired: DatasetState) -> bool:
    """Return True if ``applied`` needs no further operation to equal ``desired``.

    Of columns that are applied only, the retired column of a foreign key is accepted: it stays in the table after its
    reference is removed.
    """
    if applied is None:
        return False
    applied, desired = with_rules_of(flat(applied), desired), with_rules_of(flat(desired), applied)
    rest = {column.key: column for column in applied.columns}
    pairs = [(rest.pop(column.key, None), column) for column in desired.columns]
    return (
        _comparable_dataset(applied) == _comparable_dataset(desired)
        and is_contract_unchanged(applied, desired)
        and all(before is not None and _same_column(before, after) for before, after in pairs)
        and not any(column.active or column.role != FOREIGN_KEY for column in rest.values())
    )


def _comparable_dataset(dataset: DatasetState) -> DatasetState:
    """Return the dataset without its columns and its contract, normalized for comparison."""
    return replace(
        dataset,
        layer="",
        columns=(),
        former_names=tuple(sorted({*dataset.former_names})),
        inputs=tuple(sorted({*dataset.inputs})),
        filter=dataset.filter or None,
        load_policy=dataset.load_policy or None,
        history_policy=policy_choices(dataset.history_policy),
        contract=None,
        exposures=(),
        rules_recorded=True,
    )


def _same_column(applied: ColumnState, desired: ColumnState) -> bool:
    same_type = classify(applied.type, desired.type) is TypeChange.EQUIVALENT
    return same_type and _comparable_column(applied) == _comparable_column(replace(desired, type=applied.type))


def _comparable_column(column: ColumnState) -> ColumnState:
    names, inputs = tuple(sorted({*column.former_names})), tuple(sorted({*column.inputs}))
    return replace(column, former_names=names, inputs=inputs, expression=column.expression or None)


def _require(desired: DatasetState | None, operation: Operation) -> DatasetState:
    if desired is None:
        raise ValueError(f"{operation.describe()}: the dataset is not in the metadata")
    return desired


def _create_table(applied: DatasetState | None, operation: Operation, desired: DatasetState) -> DatasetState:
    """Return the state with a new table; base table and history are created by separate operations."""
    if operation.side == HISTORY:
        if applied is None:
            raise ValueError(f"{operation.describe()}: the base table was never applied")
        return replace(flat(applied), historize=True, history_key=desired.history_key)
    historized = applied is not None and applied.historize and applied.materialization == "table"
    return replace(desired, historize=historized, contract=applied.contract if applied is not None else None)


def _rename_table(applied: DatasetState, operation: Operation, desired: DatasetState | None) -> DatasetState:
    desired = _require(desired, operation)
    if operation.side == HISTORY:
        return applied
    return replace(
        applied,
        schema=desired.schema,
        layer=desired.layer,
        name=desired.name,
        former_names=desired.former_names,
    )


def _drop_table(applied: DatasetState, operation: Operation, desired: DatasetState | None) -> DatasetState | None:
    return replace(desired, contract=applied.contract) if desired is not None else None


def _retire_table(applied: DatasetState, operation: Operation, desired: DatasetState | None) -> DatasetState:
    if operation.side == HISTORY:
        still_active = desired is not None and desired.active
        return replace(applied, historize=False) if still_active else applied
    return replace(applied, active=False)


def _unretire_table(applied: DatasetState, operation: Operation, desired: DatasetState | None) -> DatasetState:
    return replace(applied, historize=True) if operation.side == HISTORY else replace(applied, active=True)


_ColumnStep = Callable[[DatasetState, Operation, DatasetState | None], DatasetState]


def _column_step(change: Callable[[ColumnState, ColumnState | None, Operation], dict[str, Any]]) -> _ColumnStep:
    """Return a step that changes one column of the base table; the history's columns follow from those."""

    def step(applied: DatasetState, operation: Operation, desired: DatasetState | None) -> DatasetState:
        if operation.side == HISTORY:
            return applied
        key, after = _target(applied, operation.column_key, desired)
        columns = tuple(
            replace(column, **change(column, after, operation)) if column.key == key else column
            for column in applied.columns
        )
        return replace(applied, columns=columns)

    return step


def _target(applied: DatasetState, key: str, desired: DatasetState | None) -> tuple[str, ColumnState | None]:
    """Return the applied key of the column that an operation changes, and its desired state; keys may differ."""
    if desired is not None:
        for pair in match_columns(applied.columns, desired.columns).known:
            if pair.after.key == key:
                return pair.before.key, pair.after
    return key, None


def _rename_column(applied: DatasetState, operation: Operation, desired: DatasetState | None) -> DatasetState:
    """Return the state with a renamed column, also in the history policy, which refers to columns by name."""
    if operation.side == HISTORY:
        return applied
    rename = _column_step(
        lambda column, after, _: {
            "name": operation.to,
            "former_names": after.former_names if after else (*column.former_names, column.name),
        }
    )
    state = rename(applied, operation, desired)
    return replace(state, history_policy=_rename_in_policy(applied.history_policy, operation.from_, operation.to))


def _rename_in_policy(policy: dict[str, Any] | str, before: str, after: str) -> dict[str, Any] | str:
    try:
        return HistoryPolicy.from_dict(policy).renamed({before: after}).to_dict()
    except MetadataError:
        return policy


def _add_column(applied: DatasetState, operation: Operation, desired: DatasetState | None) -> DatasetState:
    if operation.side == HISTORY:
        return applied
    new = [column for column in _require(desired, operation).columns if column.key == operation.column_key]
    others = tuple(column for column in applied.columns if column.key != operation.column_key)
    return replace(applied, columns=(*others, *new))


def _drop_column(applied: DatasetState, operation: Operation, desired: DatasetState | None) -> DatasetState:
    if operation.side == HISTORY:
        return applied
    return replace(applied, columns=tuple(column for column in applied.columns if column.key != operation.column_key))


def _rebuild_table(applied: DatasetState, operation: Operation, desired: DatasetState | None) -> DatasetState:
    if operation.side == HISTORY:
        return applied
    types = {_target(applied, key, desired)[0]: after for key, _, after in operation.columns}
    columns = tuple(replace(column, type=types.get(column.key, column.type)) for column in applied.columns)
    return replace(applied, columns=columns)


def _change_logic(applied: DatasetState, operation: Operation, desired: DatasetState | None) -> DatasetState:
    desired = _require(desired, operation)
    if operation.column_key:
        return _change_column_logic(applied, operation, desired)
    roles = {column.key: column.role for column in desired.columns}
    columns = tuple(replace(column, role=roles.get(column.key, column.role)) for column in applied.columns)
    if operation.code == policy_rules.KEY_CHANGE:
        return replace(applied, columns=columns)
    if operation.code == policy_rules.FEWER_DELIVERIES:
        return replace(applied, load_policy=with_keeping(applied.load_policy, desired.load_policy))
    return replace(applied, columns=columns, **{name: getattr(desired, name) for name in LOGIC_FIELDS})


def _change_contract(applied: DatasetState, operation: Operation, desired: DatasetState | None) -> DatasetState:
    promise = desired_contract(desired)
    return replace(applied, contract=replace(promise, version=operation.to) if promise is not None else None)


_change_column_logic = _column_step(
    lambda column, after, operation: (
        {"nullable": False}
        if operation.code == policy_rules.NOT_NULL or after is None
        else {"expression": after.expression, "inputs": after.inputs, "role": after.role}
    )
)

_STEPS: dict[str, Callable[[DatasetState, Operation, DatasetState | None], DatasetState | None]] = {
    ops.RENAME_TABLE: _rename_table,
    ops.DROP_TABLE: _drop_table,
    ops.RETIRE_TABLE: _retire_table,
    ops.UNRETIRE_TABLE: _unretire_table,
    ops.REBUILD_TABLE: _rebuild_table,
    ops.RENAME_COLUMN: _rename_column,
    ops.ADD_COLUMN: _add_column,
    ops.WIDEN_COLUMN: _column_step(lambda column, after, operation: {"type": operation.to}),
    ops.RETYPE_COLUMN: _column_step(lambda column, after, operation: {"type": operation.to}),
    ops.RETIRE_COLUMN: _column_step(lambda column, after, operation: {"active": False}),
    ops.UNRETIRE_COLUMN: _column_step(lambda column, after, operation: {"active": True}),
    ops.DROP_COLUMN: _drop_column,
    ops.CHANGE_LOGIC: _change_logic,
    ops.CHANGE_CONTRACT: _change_contract,
    ops.DROP_FEATURES: lambda applied, operation, desired: applied,
}
