"""What of a dataset's logic moved: expressions, filters, inputs, policies, and the business key.

A text that only follows a rename of what it reads says the same as before. What makes a history
compare other values than before is told apart from what does not.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from architecture.domain.planning.diff import Pair, match
from metadata.domain.errors import MetadataError
from metadata.domain.history_form import form_of
from metadata.domain.history_form import moved as form_moved
from metadata.domain.history_policy import HistoryPolicy
from metadata.domain.sql import ExpressionProblem, rename_in_expression
from metadata.domain.state import BUSINESS_KEY, TECHNICAL, ColumnState, DatasetState

# Choices of a history policy that change no comparison: what is published, how long memory is kept.
_SHOWN_ONLY = ("views", "late_horizon")


@dataclass(frozen=True)
class Moved:
    """What moved, in words; ``compares``: whether values or rows may come out differently.

    ``form`` are the parts of the history's form that moved (``metadata.domain.history_form``).
    """

    what: tuple[str, ...] = ()
    compares: bool = False
    form: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.what)

    def and_(self, what: str, *, compares: bool) -> "Moved":
        return replace(self, what=(*self.what, what), compares=self.compares or compares)


@dataclass(frozen=True)
class Called:
    """A desired column: what it is called, and what it was called; what it is called in the current state first."""

    name: str
    before: tuple[str, ...]


class Renames:
    """What the columns of the desired state were called before, to tell a text that only follows them.

    ``datasets`` are what is there of each (None: nothing) and what is desired of it.
    """

    def __init__(self, datasets: Iterable[tuple[DatasetState | None, DatasetState]]) -> None:
        self._datasets = {after.key: (before, after) for before, after in datasets}
        self._called: dict[str, dict[str, Called]] = {}

    def of_columns(self, keys: Iterable[str], own: str) -> list[Called]:
        """The columns with these keys that had another name. A key of many datasets is meant in ``own``, if it is its.

        Files of other installations may use one key in many datasets; elsewhere it tells nothing then.
        """
        found = []
        for key in keys:
            owners = self._owners.get(key, ())
            owner = own if own in owners else owners[0] if len(owners) == 1 else None
            if owner is not None and key in (called := self._of(owner)):
                found.append(called[key])
        return found

    def of_datasets(self, keys: Iterable[str]) -> list[Called]:
        """All columns of the datasets with these keys that had another name."""
        return [called for key in keys if key in self._datasets for called in self._of(key).values()]

    @cached_property
    def _owners(self) -> dict[str, list[str]]:
        owners: dict[str, list[str]] = {}
        for key, (_, dataset) in self._datasets.items():
            for column in dataset.columns:
                owners.setdefault(column.key, []).append(key)
        return owners

    def _of(self, dataset: str) -> dict[str, Called]:
        if dataset not in self._called:
            before, after = self._datasets[dataset]
            pairs = match(before.columns, after.columns, name=_name, former=_former).pairs if before else []
            was = {pair.after.key: (pair.before.name,) for pair in pairs}
            called = {one.key: Called(one.name, (*was.get(one.key, ()), *one.former_names)) for one in after.columns}
            self._called[dataset] = {key: one for key, one in called.items() if {*one.before} - {one.name}}
        return self._called[dataset]


def _name(column: ColumnState) -> str:
    return column.name.lower()


def _former(column: ColumnState) -> Iterable[str]:
    return (name.lower() for name in column.former_names)


def _only_follows(before: str | None, after: str | None, columns: Sequence[Called]) -> bool:
    """Whether ``after`` is ``before`` with these columns called by their new names; where two swap them, too."""
    if before is None or after is None:
        return False
    markers = {f"__renamed_{place}": column for place, column in enumerate(columns)}
    was, is_ = {}, {}
    for marker, column in markers.items():
        is_.setdefault(column.name.lower(), marker)
        was.setdefault(next(iter(column.before)).lower(), marker)
    for marker, column in markers.items():
        for name in (*column.before, column.name):
            was.setdefault(name.lower(), marker)
    try:
        return _marked(before, was) == _marked(after, is_)
    except ExpressionProblem:
        return False


def _marked(text: str, markers: Mapping[str, str]) -> str:
    for name, marker in markers.items():
        text = rename_in_expression(text, name, marker)
    return text.replace("`", "")


def column_moved(pair: Pair[ColumnState], renames: Renames, dataset: str) -> Moved:
    """What moved of a column of this dataset: its expression, inputs, place among values and technical columns."""
    before, after = pair.before, pair.after
    moved = Moved()
    same_inputs = {*before.inputs} == {*after.inputs}
    if before.expression != after.expression:
        columns = renames.of_columns(after.inputs, dataset)
        follows = same_inputs and _only_follows(before.expression, after.expression, columns)
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
    same_inputs = {*before.inputs} == {*after.inputs}
    if before.filter != after.filter:
        follows = same_inputs and _only_follows(before.filter, after.filter, renames.of_datasets(after.inputs))
        said = "the filter follows renamed columns" if follows else "the filter moved"
        moved = moved.and_(said, compares=not follows)
    if not same_inputs:
        moved = moved.and_("the inputs moved", compares=True)
    if (before.load_policy or None) != (after.load_policy or None):
        moved = moved.and_("the load policy moved", compares=True)
    was, is_ = _policy(before.history_policy, names), _policy(after.history_policy, {})
    if _choices(was) != _choices(is_):
        moved = moved.and_("the history policy moved", compares=_compared(was) != _compared(is_))
        if isinstance(was, HistoryPolicy) and isinstance(is_, HistoryPolicy):
            moved = replace(moved, form=form_moved(form_of(was, {}), form_of(is_, {})))
    if before.hash_version != after.hash_version:
        moved = moved.and_("rows are hashed in another way", compares=True)
    return moved


def _policy(described: dict | str, names: Mapping[str, str]) -> HistoryPolicy | dict | str:
    """A policy over the columns' new names; one that is not ours as it stands."""
    if not isinstance(described, dict):
        return described
    try:
        return HistoryPolicy.from_dict(described).renamed(names)
    except MetadataError:
        return described


def _choices(policy: HistoryPolicy | dict | str) -> dict | str:
    """What a policy says, its defaults left out."""
    if not isinstance(policy, HistoryPolicy):
        return policy
    choices = policy.to_dict()
    if "track" in choices:
        choices["track"] = sorted(choices["track"])
    return choices


def _compared(policy: HistoryPolicy | dict | str) -> dict | str:
    choices = _choices(policy)
    if not isinstance(choices, dict):
        return choices
    return {name: value for name, value in choices.items() if name not in _SHOWN_ONLY}


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
