"""Changes of a dataset's logic: expressions, filters, inputs, policies, and the business key.

A text that differs only by renames of this plan is unchanged; former names alone prove nothing. An unchanged text
that now names another column is a change. Changes that affect what a history compares are separated from those that
do not.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from architecture.domain.planning.matching import Matching, Pair, match
from elevata.core.errors import MetadataError
from metadata.domain.history_columns import form_differences, form_of
from metadata.domain.history_policy import HistoryPolicy
from metadata.domain.sql import ExpressionProblem, check_expression, rename_in_expression
from metadata.domain.state import BUSINESS_KEY, TECHNICAL, ColumnState, DatasetState

_WORD = re.compile(r"`([^`]+)`|(\w+)")
# Fields of a history policy that change no comparison: what is published, how long event logs are kept.
_SHOWN_ONLY = ("views", "late_horizon")


@dataclass(frozen=True)
class Moved:
    """Changes of logic in words. ``compares``: values or rows may differ for the dataset's own history.

    ``alters``: values or rows may differ for readers of the dataset, which a history policy alone does not cause.
    ``form`` are the changed parts of the history's form (``metadata.domain.history_columns``).
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
    """Desired column that the plan renames: its name, and its current name."""

    name: str
    before: str


class Renames:
    """Columns that a plan renames, to recognize a text that only follows them.

    ``datasets`` are pairs of the current state (None: there is none) and the desired one.
    """

    def __init__(self, datasets: Iterable[tuple[DatasetState | None, DatasetState]]) -> None:
        self._datasets = {after.key: (before, after) for before, after in datasets}
        self._called: dict[str, dict[str, Called]] = {}
        self._names: dict[str, tuple[dict[str, str], dict[str, str]]] = {}

    def of_columns(self, keys: Iterable[str], own: str) -> list[Called]:
        """Return the renamed columns with these keys; a key that several datasets use is looked up in ``own``.

        State files of other installations may use one key in many datasets; elsewhere such a key is ignored.
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

    def followed(self, columns: Iterable[Called], reader: str) -> list[Called]:
        """Return those whose old name is that of no other column, staying or new, that ``reader`` may read."""
        staying: set[str] = set()
        for key in self._read_by(reader):
            before, after = self._names_of(key)
            staying |= {name for name, column in after.items() if before.get(name) == column or name not in before}
        return [column for column in columns if column.before.lower() not in staying]

    def means_another(self, text: str | None, reader: str) -> bool:
        """Return whether a name in a text of ``reader`` resolves to another column of an input than before.

        The former column may be retired. Each input counts by itself, since each delivers rows of its own.
        """
        if not text:
            return False
        read = [(key, *self._names_of(key)) for key in self._read_by(reader)]
        moved = [pair for pair in read if pair[1] != pair[2]]
        return bool(moved) and any(self._other(*pair, name, name) for pair in moved for name in names_read(text))

    def takes_another(self, pair: Pair[ColumnState], reader: str) -> bool:
        """Return whether a column of ``reader`` that stays as it is described is computed from other columns."""
        if pair.before.expression or pair.after.expression:
            return pair.before.expression == pair.after.expression and self.means_another(pair.after.expression, reader)
        if pair.before.inputs or pair.after.inputs:
            return self._first_read(pair.before) != self._first_read(pair.after)
        was, is_ = pair.before.name.lower(), pair.after.name.lower()
        return any(self._other(key, *self._names_of(key), was, is_) for key in self._read_by(reader))

    def _other(self, dataset: str, before: Mapping[str, str], after: Mapping[str, str], was: str, is_: str) -> bool:
        """Return whether ``is_`` is the name of another column now than ``was`` was before."""
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
        """Return the input that a column without an expression takes of each dataset: the first."""
        first: dict[str, str] = {}
        for key in column.inputs:
            for owner in self._owners.get(key, ()):
                first.setdefault(owner, key)
        return first

    def _read_by(self, reader: str) -> list[str]:
        _, dataset = self._datasets.get(reader, (None, None))
        return [key for key in dataset.inputs if key in self._datasets] if dataset is not None else []

    def _names_of(self, dataset: str) -> tuple[dict[str, str], dict[str, str]]:
        """Return the keys of a dataset's columns by name, as they are and as desired, both under the desired keys."""
        if dataset not in self._names:
            before, after = self._datasets[dataset]
            was = {column.name.lower(): column.key for column in (before.active_columns if before else ())}
            is_ = {column.name.lower(): column.key for column in after.active_columns}
            if was != is_:  # matching takes longer, and most datasets are as they were
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


def _only_follows(before: str | None, after: str | None, columns: Sequence[Called]) -> bool:
    """Return whether ``after`` is ``before`` with these columns called by their new names; where two swap them, too."""
    if before is None or after is None:
        return False
    was, is_ = {}, {}
    for place, column in enumerate(columns):
        is_.setdefault(column.name.lower(), f"__renamed_{place}")
        was.setdefault(column.before.lower(), f"__renamed_{place}")
    try:
        return _marked(before, was) == _marked(after, is_)
    except ExpressionProblem:
        return False


def names_read(text: str) -> frozenset[str]:
    """Return the names of the columns that a text reads, in lower case; all its words if it is not SQL of ours."""
    try:
        return frozenset(name.lower() for name in check_expression(text))
    except MetadataError:
        return names_in(text)


def names_in(text: str) -> frozenset[str]:
    """Return the words of a text that may be names of columns, in lower case; quoted ones whole."""
    return frozenset((quoted or word).lower() for quoted, word in _WORD.findall(text))


def _marked(text: str, markers: Mapping[str, str]) -> str:
    for name, marker in markers.items():
        text = rename_in_expression(text, name, marker)
    return text.replace("`", "")


def column_moved(pair: Pair[ColumnState], renames: Renames, dataset: str) -> Moved:
    """Return the changed logic of a column: its expression, inputs, place among values and technical columns."""
    before, after = pair.before, pair.after
    moved = Moved()
    same_inputs = {*before.inputs} == {*after.inputs}
    if before.expression != after.expression:
        columns = renames.followed(renames.of_columns(after.inputs, dataset), dataset)
        follows = same_inputs and _only_follows(before.expression, after.expression, columns)
        message = "the expression follows renamed columns" if follows else "the expression moved"
        moved = moved.and_(message, compares=not follows)
    elif same_inputs and renames.takes_another(pair, dataset):
        message = "the expression names another column than before" if after.expression else "it takes another column"
        moved = moved.and_(message, compares=True)
    if not same_inputs:
        detached = before.inputs and not after.inputs
        message = (
            "lineage is detached: nothing fills the column any more; retire it" if detached else "the inputs moved"
        )
        moved = moved.and_(message, compares=True)
    if before.role != after.role and BUSINESS_KEY not in (before.role, after.role):
        moved = moved.and_(f"the column was {before.role} and is {after.role}", compares=True)
    return moved


def dataset_moved(before: DatasetState, after: DatasetState, names: Mapping[str, str], renames: Renames) -> Moved:
    """Return the changed logic of a dataset as a whole. ``names`` maps its columns' names before to those after."""
    moved = Moved()
    same_inputs = {*before.inputs} == {*after.inputs}
    if before.filter != after.filter:
        columns = renames.followed(renames.of_datasets(after.inputs), after.key)
        follows = same_inputs and _only_follows(before.filter, after.filter, columns)
        message = "the filter follows renamed columns" if follows else "the filter moved"
        moved = moved.and_(message, compares=not follows)
    elif renames.means_another(after.filter, after.key):
        moved = moved.and_("the filter names another column than before", compares=True)
    if not same_inputs:
        moved = moved.and_("the inputs moved", compares=True)
    if (before.load_policy or None) != (after.load_policy or None):
        moved = moved.and_("the load policy moved", compares=True)
    was, is_ = _policy(before.history_policy, names), _policy(after.history_policy, {})
    if _choices(was) != _choices(is_):
        moved = moved.and_("the history policy moved", compares=_compared(was) != _compared(is_), alters=False)
        if isinstance(was, HistoryPolicy) and isinstance(is_, HistoryPolicy):
            moved = replace(moved, form=form_differences(form_of(was, {}), form_of(is_, {})))
    if before.hash_version != after.hash_version:
        moved = moved.and_("rows are hashed in another way", compares=True)
    return moved


def _policy(described: dict | str, names: Mapping[str, str]) -> HistoryPolicy | dict | str:
    """Return a policy with the columns' new names; unchanged if it is not in our format."""
    if not isinstance(described, dict):
        return described
    try:
        return HistoryPolicy.from_dict(described).renamed(names)
    except MetadataError:
        return described


def policy_choices(described: dict | str) -> dict | str:
    """Return the choices of a described history policy without its defaults."""
    return _choices(_policy(described, {}))


def _choices(policy: HistoryPolicy | dict | str) -> dict | str:
    """Return a policy's choices without its defaults."""
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
    """Return whether the business key consists of other columns than before; names and order do not count."""
    return any(_is_key(pair.before) != _is_key(pair.after) for pair in pairs) or any(map(_is_key, (*new, *gone)))


def _is_key(column: ColumnState) -> bool:
    return column.active and column.role == BUSINESS_KEY


def follows_table(pair: Pair[ColumnState], table_before: str, table_after: str) -> bool:
    """Return whether a technical column was only renamed with its table."""
    renamed = table_before != table_after and table_before in pair.before.name
    return (
        renamed
        and pair.before.role == TECHNICAL == pair.after.role
        and pair.before.name.replace(table_before, table_after, 1) == pair.after.name
    )
