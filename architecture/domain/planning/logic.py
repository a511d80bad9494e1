"""What of a dataset's logic moved: expressions, filters, inputs, policies, and the business key.

A text that only follows a rename of what it reads says the same as before. What makes a history
compare other values than before is told apart from what does not.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from architecture.domain.planning.diff import Pair
from metadata.domain.errors import MetadataError
from metadata.domain.history_policy import HistoryPolicy
from metadata.domain.sql import ExpressionProblem, rename_in_expression
from metadata.domain.state import BUSINESS_KEY, TECHNICAL, ColumnState, DatasetState

# Choices of a history policy that change no comparison: what is published, how long memory is kept.
_SHOWN_ONLY = ("views", "late_horizon")


@dataclass(frozen=True)
class Moved:
    """What moved, in words; ``compares``: whether values or rows may come out differently."""

    what: tuple[str, ...] = ()
    compares: bool = False

    def __bool__(self) -> bool:
        return bool(self.what)

    def and_(self, what: str, *, compares: bool) -> "Moved":
        return Moved((*self.what, what), self.compares or compares)


class Renames:
    """Which names the columns of the desired state had before, to tell a text that only follows them."""

    def __init__(self, desired: Iterable[DatasetState]) -> None:
        self._columns: dict[str, ColumnState | None] = {}
        self._datasets = {}
        for dataset in desired:
            self._datasets[dataset.key] = dataset
            for column in dataset.columns:
                # Files of other installations may use one key in many datasets; then it tells nothing.
                self._columns[column.key] = None if column.key in self._columns else column

    def of_columns(self, keys: Iterable[str]) -> list[tuple[str, str]]:
        """(former name, name) of the columns with these keys."""
        return _former(self._columns.get(key) for key in keys)

    def of_datasets(self, keys: Iterable[str]) -> list[tuple[str, str]]:
        """(former name, name) of all columns of the datasets with these keys."""
        found = (self._datasets.get(key) for key in keys)
        return _former(column for dataset in found if dataset for column in dataset.columns)


def _former(columns: Iterable[ColumnState | None]) -> list[tuple[str, str]]:
    return [(former, column.name) for column in columns if column for former in column.former_names]


def _only_follows(before: str | None, after: str | None, renames: Sequence[tuple[str, str]]) -> bool:
    """Whether ``after`` is ``before`` with columns called by their new names."""
    if before is None or after is None:
        return False
    try:
        for former, name in renames:
            before, after = (rename_in_expression(text, former, name) for text in (before, after))
    except ExpressionProblem:
        return False
    return before.replace("`", "") == after.replace("`", "")


def column_moved(pair: Pair[ColumnState], renames: Renames) -> Moved:
    """What moved of one column: its expression, its inputs, its place among values and technical columns."""
    before, after = pair.before, pair.after
    moved = Moved()
    same_inputs = sorted(before.inputs) == sorted(after.inputs)
    if before.expression != after.expression:
        follows = same_inputs and _only_follows(before.expression, after.expression, renames.of_columns(after.inputs))
        said = "the expression follows renamed columns" if follows else "the expression moved"
        moved = moved.and_(said, compares=not follows)
    if not same_inputs:
        detached = before.inputs and not after.inputs
        said = "lineage is detached: nothing fills the column any more; retire it" if detached else "the inputs moved"
        moved = moved.and_(said, compares=True)
    if before.role != after.role and BUSINESS_KEY not in (before.role, after.role):
        moved = moved.and_(f"the column was {before.role} and is {after.role}", compares=True)
    return moved


def dataset_moved(before: DatasetState, after: DatasetState, names: Mapping[str, str], renames: Renames) -> Moved:
    """What moved of a dataset as a whole. ``names`` are its own columns' (name before to name after)."""
    moved = Moved()
    same_inputs = sorted(before.inputs) == sorted(after.inputs)
    if before.filter != after.filter:
        follows = same_inputs and _only_follows(before.filter, after.filter, renames.of_datasets(after.inputs))
        said = "the filter follows renamed columns" if follows else "the filter moved"
        moved = moved.and_(said, compares=not follows)
    if not same_inputs:
        moved = moved.and_("the inputs moved", compares=True)
    if before.load_policy != after.load_policy:
        moved = moved.and_("the load policy moved", compares=True)
    was, is_ = _choices(before.history_policy, names), _choices(after.history_policy, {})
    if was != is_:
        moved = moved.and_("the history policy moved", compares=_compared(was) != _compared(is_))
    if before.hash_version != after.hash_version:
        moved = moved.and_("rows are hashed in another way", compares=True)
    return moved


def _choices(policy: dict | str, names: Mapping[str, str]) -> dict | str:
    """A policy with its defaults left out, over the columns' new names; one that is not ours as it stands."""
    if not isinstance(policy, dict):
        return policy
    try:
        choices = HistoryPolicy.from_dict(policy).renamed(names).to_dict()
    except MetadataError:
        return policy
    if "track" in choices:
        choices["track"] = sorted(choices["track"])
    return choices


def _compared(policy: dict | str) -> dict | str:
    if not isinstance(policy, dict):
        return policy
    return {name: value for name, value in policy.items() if name not in _SHOWN_ONLY}


def key_moved(pairs: Iterable[Pair[ColumnState]], new: Iterable[ColumnState], gone: Iterable[ColumnState]) -> bool:
    """Whether other columns make up the business key than before; their names and order say nothing."""
    return any(_is_key(pair.before) != _is_key(pair.after) for pair in pairs) or any(map(_is_key, (*new, *gone)))


def _is_key(column: ColumnState) -> bool:
    return column.active and column.role == BUSINESS_KEY


def follows_table(pair: Pair[ColumnState], table_before: str, table_after: str) -> bool:
    """Whether a technical column is only called after its renamed table."""
    renamed = table_before != table_after and table_before in pair.before.name
    return (
        renamed
        and pair.before.role == TECHNICAL == pair.after.role
        and pair.before.name.replace(table_before, table_after, 1) == pair.after.name
    )
