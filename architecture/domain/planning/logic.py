"""Changes of a dataset's logic: expressions, filters, inputs, policies, and the business key.

A text (expression or filter) that differs only by renames of this plan is unchanged; former names are not enough. A
text that stays the same but now refers to another column is changed. Changes that affect the values a history
compares are separated from other changes.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from architecture.domain.planning.kept_deliveries import describe_changed_retention, removes_deliveries
from architecture.domain.planning.matching import Matching, Pair, match
from architecture.domain.planning.row_rules import FollowedNames, changed_rules
from architecture.domain.states.flat_states import FOREIGN_KEY, column_pairs, rule_for_unknown_parents
from elevata.core.errors import MetadataError
from metadata.domain.history.history_form import form_differences, form_of
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.quality.unknown_parents import QUARANTINE
from metadata.domain.sql import ExpressionProblem, check_expression, rename_in_expression
from metadata.domain.state import BUSINESS_KEY, TECHNICAL, ColumnState, DatasetState

_WORD = re.compile(r"`([^`]+)`|(\w+)")
# Fields of a history policy that do not affect comparisons: published views.
_NOT_COMPARED = ("views",)
# Fields that affect a history only; the others decide the rows of the table, too, which others read.
_OF_VERSIONS = (*_NOT_COMPARED, "track", "untracked", "open_end", "profile", "state_labels")


@dataclass(frozen=True)
class Moved:
    """Changes of logic, as messages (``what``).

    ``compares``: the dataset's own history may get different values or rows. ``alters``: readers of the dataset may
    get different values or rows. ``form`` are the changed parts of the history's form
    (``metadata.domain.history.history_columns``).
    """

    what: tuple[str, ...] = ()
    compares: bool = False
    form: tuple[str, ...] = ()
    alters: bool = False

    def __bool__(self) -> bool:
        return bool(self.what)

    def and_(self, what: str, *, compares: bool, alters: bool | None = None) -> "Moved":
        alters = compares if alters is None else alters
        what_ = (*self.what, what)
        return replace(self, what=what_, compares=self.compares or compares, alters=self.alters or alters)


@dataclass(frozen=True)
class Called:
    """Column that the plan renames: its desired name, and its current name (``before``)."""

    name: str
    before: str


class Renames:
    """Columns that a plan renames, to recognize texts that changed only by these renames.

    ``datasets`` are pairs of the current state (None for a new dataset) and the desired one.
    """

    def __init__(self, datasets: Iterable[tuple[DatasetState | None, DatasetState]]) -> None:
        self._datasets = {after.key: (before, after) for before, after in datasets}
        self._called: dict[str, dict[str, Called]] = {}
        self._names: dict[str, tuple[dict[str, str], dict[str, str]]] = {}

    def of_columns(self, keys: Iterable[str], own: str) -> list[Called]:
        """Return the renamed columns with these keys.

        State files of other installations may use one key in several datasets. Such a key is looked up in the
        dataset ``own``, and ignored if ``own`` does not use it.
        """
        names = []
        for key in keys:
            owners = self._owners.get(key, ())
            owner = own if own in owners else owners[0] if len(owners) == 1 else None
            if owner is not None and key in (called := self._of(owner)):
                names.append(called[key])
        return names

    def of_datasets(self, keys: Iterable[str]) -> list[Called]:
        """Return all columns of the datasets with these keys that the plan renames."""
        return [called for key in keys if key in self._datasets for called in self._of(key).values()]

    def of_name(self, name: str) -> tuple[str, dict[str, str]]:
        """Return the new name of the dataset that has this name, and the new names of its columns."""
        for key, (before, after) in self._datasets.items() if name else ():
            if before is not None and before.qualified_name.lower() == name.lower():
                return after.qualified_name, {called.before.lower(): called.name for called in self._of(key).values()}
        return name, {}

    def followed(self, columns: Iterable[Called], reader: str) -> list[Called]:
        """Return the renamed columns whose old name no other column has that ``reader`` may read."""
        used: set[str] = set()
        for key in self._read_by(reader):
            before, after = self._names_of(key)
            used |= {name for name, column in after.items() if before.get(name) == column or name not in before}
        return [column for column in columns if column.before.lower() not in used]

    def means_another(self, text: str | None, reader: str) -> bool:
        """Return True if a name in a text of ``reader`` resolves to another column of an input than before.

        The former column may be retired. Inputs are compared one by one, because each delivers rows of its own.
        """
        if not text:
            return False
        inputs = [(key, *self._names_of(key)) for key in self._read_by(reader)]
        changed = [item for item in inputs if item[1] != item[2]]
        return bool(changed) and any(self._other(*item, name, name) for item in changed for name in names_read(text))

    def takes_another(self, pair: Pair[ColumnState], reader: str) -> bool:
        """Return True if a column of ``reader`` is computed from other columns, although its logic is unchanged."""
        if pair.before.expression or pair.after.expression:
            return pair.before.expression == pair.after.expression and self.means_another(pair.after.expression, reader)
        if pair.before.inputs or pair.after.inputs:
            return self._first_read(pair.before) != self._first_read(pair.after)
        was, is_ = pair.before.name.lower(), pair.after.name.lower()
        return any(self._other(key, *self._names_of(key), was, is_) for key in self._read_by(reader))

    def _other(self, dataset: str, before: Mapping[str, str], after: Mapping[str, str], was: str, is_: str) -> bool:
        """Return True if the column named ``is_`` after is another one than the column named ``was`` before."""
        if is_ not in after:
            return False
        key = before.get(was)
        return after[is_] not in ((key,) if key is not None else self._retired(dataset, was))

    def _retired(self, dataset: str, name: str) -> list[str]:
        return [
            pair.after.key
            for pair in self._pairs(dataset)
            if not pair.before.active and pair.before.name.lower() == name
        ]

    def _first_read(self, column: ColumnState) -> dict[str, str]:
        """Return the input of a column without an expression in each dataset: the first one."""
        first: dict[str, str] = {}
        for key in column.inputs:
            for owner in self._owners.get(key, ()):
                first.setdefault(owner, key)
        return first

    def _read_by(self, reader: str) -> list[str]:
        _, dataset = self._datasets.get(reader, (None, None))
        return [key for key in dataset.inputs if key in self._datasets] if dataset is not None else []

    def _names_of(self, dataset: str) -> tuple[dict[str, str], dict[str, str]]:
        """Return the desired keys of a dataset's columns by name: by current and by desired names."""
        if dataset not in self._names:
            before, after = self._datasets[dataset]
            was = {column.name.lower(): column.key for column in (before.active_columns if before else ())}
            is_ = {column.name.lower(): column.key for column in after.active_columns}
            if was != is_:  # most datasets are unchanged, and matching takes longer
                same = {pair.before.key: pair.after.key for pair in self._pairs(dataset)}
                was = {name: same.get(key, key) for name, key in was.items()}
            self._names[dataset] = was, is_
        return self._names[dataset]

    def _pairs(self, dataset: str) -> list[Pair[ColumnState]]:
        before, after = self._datasets[dataset]
        return match_columns(before.columns, after.columns).known if before is not None else []

    @cached_property
    def _owners(self) -> dict[str, list[str]]:
        owners: dict[str, list[str]] = {}
        for key, (_, dataset) in self._datasets.items():
            for column in dataset.columns:
                owners.setdefault(column.key, []).append(key)
        return owners

    def _of(self, dataset: str) -> dict[str, Called]:
        if dataset not in self._called:
            pairs = self._pairs(dataset)
            renamed = [pair for pair in pairs if pair.before.name.lower() != pair.after.name.lower()]
            self._called[dataset] = {pair.after.key: Called(pair.after.name, pair.before.name) for pair in renamed}
        return self._called[dataset]


def match_columns(before: Sequence[ColumnState], after: Sequence[ColumnState]) -> Matching[ColumnState]:
    """Match columns of one table by stable key, name and former names; case makes no difference."""
    return match(
        before,
        after,
        name=lambda column: column.name.lower(),
        former=lambda column: (name.lower() for name in column.former_names),
    )


def _differs_by_renames(before: str | None, after: str | None, columns: Sequence[Called]) -> bool:
    """Return True if ``after`` is ``before`` with the new names of these columns, which may have swapped names."""
    if before is None or after is None:
        return False
    was: dict[str, str] = {}
    is_: dict[str, str] = {}
    for index, column in enumerate(columns):
        is_.setdefault(column.name.lower(), f"__renamed_{index}")
        was.setdefault(column.before.lower(), f"__renamed_{index}")
    try:
        return _with_markers(before, was) == _with_markers(after, is_)
    except ExpressionProblem:
        return False


def names_read(text: str) -> frozenset[str]:
    """Return the names of the columns in a text, in lower case; all words of a text that is not accepted SQL."""
    try:
        return frozenset(name.lower() for name in check_expression(text))
    except MetadataError:
        return names_in(text)


def names_in(text: str) -> frozenset[str]:
    """Return the words and quoted identifiers of a text, which may be names of columns, in lower case."""
    return frozenset((quoted or word).lower() for quoted, word in _WORD.findall(text))


def _with_markers(text: str, markers: Mapping[str, str]) -> str:
    for name, marker in markers.items():
        text = rename_in_expression(text, name, marker)
    return text.replace("`", "")


def column_moved(pair: Pair[ColumnState], renames: Renames, dataset: str) -> Moved:
    """Return the changes of a column's logic: its expression, inputs and role."""
    before, after = pair.before, pair.after
    moved = Moved()
    same_inputs = {*before.inputs} == {*after.inputs}
    if before.expression != after.expression:
        columns = renames.followed(renames.of_columns(after.inputs, dataset), dataset)
        follows = same_inputs and _differs_by_renames(before.expression, after.expression, columns)
        message = "the expression follows renamed columns" if follows else "the expression moved"
        moved = moved.and_(message, compares=not follows)
    elif same_inputs and renames.takes_another(pair, dataset):
        message = "the expression names another column than before" if after.expression else "it takes another column"
        moved = moved.and_(message, compares=True)
    if not same_inputs and FOREIGN_KEY in (before.role, after.role) and _same_pairs(before, after):
        # The foreign key is no part of the row hash: no version differs by it, but quarantined rows are missing.
        holds_back = QUARANTINE in map(rule_for_unknown_parents, (before, after))
        moved = moved.and_("the rule for unknown parents moved", compares=holds_back, alters=True)
    elif not same_inputs:
        detached = before.inputs and not after.inputs
        message = (
            "lineage is detached: nothing fills the column any more; retire it" if detached else "the inputs moved"
        )
        moved = moved.and_(message, compares=True)
    if before.role != after.role and BUSINESS_KEY not in (before.role, after.role):
        moved = moved.and_(f"the column was {before.role} and is {after.role}", compares=True)
    return moved


def _same_pairs(before: ColumnState, after: ColumnState) -> bool:
    return {*column_pairs(before)} == {*column_pairs(after)}


def dataset_moved(before: DatasetState, after: DatasetState, names: Mapping[str, str], renames: Renames) -> Moved:
    """Return the changes of a dataset's logic, without its columns'. ``names`` maps current to desired column names."""
    moved = Moved()
    same_inputs = {*before.inputs} == {*after.inputs}
    if before.filter != after.filter:
        columns = renames.followed(renames.of_datasets(after.inputs), after.key)
        follows = same_inputs and _differs_by_renames(before.filter, after.filter, columns)
        message = "the filter follows renamed columns" if follows else "the filter moved"
        moved = moved.and_(message, compares=not follows)
    elif renames.means_another(after.filter, after.key):
        moved = moved.and_("the filter names another column than before", compares=True)
    if before.select != after.select:
        moved = moved.and_("the SELECT moved", compares=True)
    elif not same_inputs:
        moved = moved.and_("the inputs moved", compares=True)
    if before.increment != after.increment:
        moved = moved.and_("loads compute other rows anew", compares=True)
    followed = _followed_names(after, names, renames)
    for clause, compares in changed_rules(before.load_policy, after.load_policy, followed):
        moved = moved.and_(clause, compares=compares)
    if (kept := describe_changed_retention(before, after)) and not removes_deliveries(before, after):
        moved = moved.and_(kept, compares=False)
    was, is_ = _policy(before.history_policy, names), _policy(after.history_policy, {})
    if _choices(was) != _choices(is_):
        compares, alters = (_differ(was, is_, without) for without in (_NOT_COMPARED, _OF_VERSIONS))
        moved = moved.and_("the history policy moved", compares=compares, alters=alters)
        if isinstance(was, HistoryPolicy) and isinstance(is_, HistoryPolicy):
            moved = replace(moved, form=form_differences(form_of(was, {}), form_of(is_, {})))
    if before.hash_version != after.hash_version:
        moved = moved.and_("rows are hashed in another way", compares=True)
    return moved


def _followed_names(after: DatasetState, names: Mapping[str, str], renames: Renames) -> FollowedNames:
    own = {before.lower(): name for before, name in names.items()}
    columns = renames.of_datasets((after.key,))
    return FollowedNames(
        own,
        renames.of_name,
        lambda was, is_: (was == is_ and not columns) or _differs_by_renames(was, is_, columns),
    )


def _policy(described: dict[str, Any] | str, names: Mapping[str, str]) -> HistoryPolicy | dict[str, Any] | str:
    """Return the policy with the columns' new names; a policy of unknown form is returned unchanged."""
    if not isinstance(described, dict):
        return described
    try:
        return HistoryPolicy.from_dict(described).renamed(names)
    except MetadataError:
        return described


def policy_choices(described: dict[str, Any] | str) -> dict[str, Any] | str:
    """Return the choices of a history policy, without defaults."""
    return _choices(_policy(described, {}))


def _choices(policy: HistoryPolicy | dict[str, Any] | str) -> dict[str, Any] | str:
    """Return the policy's choices, without defaults."""
    if not isinstance(policy, HistoryPolicy):
        return policy
    choices = policy.to_dict()
    if "track" in choices:
        choices["track"] = sorted(choices["track"])
    return choices


def _differ(
    before: HistoryPolicy | dict[str, Any] | str, after: HistoryPolicy | dict[str, Any] | str, without: Iterable[str]
) -> bool:
    was, is_ = _choices(before), _choices(after)
    if not isinstance(was, dict) or not isinstance(is_, dict):
        return was != is_
    return any(was.get(name) != is_.get(name) for name in {*was, *is_} - {*without})


def key_moved(pairs: Iterable[Pair[ColumnState]], new: Iterable[ColumnState], gone: Iterable[ColumnState]) -> bool:
    """Return True if the columns of the business key change; their names and order do not count."""
    return any(_is_key(pair.before) != _is_key(pair.after) for pair in pairs) or any(map(_is_key, (*new, *gone)))


def _is_key(column: ColumnState) -> bool:
    return column.active and column.role == BUSINESS_KEY


def follows_table(pair: Pair[ColumnState], table_before: str, table_after: str) -> bool:
    """Return True if a technical column is only renamed with its table."""
    renamed = table_before != table_after and table_before in pair.before.name
    return (
        renamed
        and pair.before.role == TECHNICAL == pair.after.role
        and pair.before.name.replace(table_before, table_after, 1) == pair.after.name
    )
