"""Histories downstream of a change, whose compared values may change.

A change of a column affects the columns computed from it, and all rows of a model that the column decides on; a change
of a dataset's rows affects all its readers, and parents that get ghost rows for its keys.
Retired readers count, because they can be reactivated without approval. Applied and desired inputs both count,
because a change of inputs may be undone first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from architecture.domain import operations as ops
from architecture.domain.operations import BASE, Operation
from architecture.domain.planning.drafts import Draft
from architecture.domain.planning.logic import names_in
from architecture.domain.policy_rules import HISTORY_DIFFERS, VIEW_COLUMN
from architecture.domain.states.flat_states import FOREIGN_KEY, column_pairs, rule_for_unknown_parents
from elevata.core.errors import MetadataError
from metadata.domain.load_policy import cross_dataset_check_texts
from metadata.domain.models.row_inputs import decides_rows
from metadata.domain.naming import history_name
from metadata.domain.quality.unknown_parents import GHOST, KEEP, QUARANTINE
from metadata.domain.sql import check_expression
from metadata.domain.state import BUSINESS_KEY, ColumnState, DatasetState

NAMING = frozenset({ops.RENAME_COLUMN, ops.ADD_COLUMN})
# A dataset, applied and desired; one of the two is None if it is new or removed.
Sides = tuple[DatasetState | None, DatasetState | None]


@dataclass
class Downstream:
    """Graph of datasets and their readers. ``sides`` are all datasets, with the keys of the desired state."""

    sides: Iterable[Sides]
    _states: dict[str, list[DatasetState]] = field(default_factory=dict, init=False)
    _readers: dict[str, set[str]] = field(default_factory=dict, init=False)
    # Parents that get ghost rows, by the child and its foreign key.
    _ghosts: dict[tuple[str, str], str] = field(default_factory=dict, init=False)
    # Foreign keys whose rule holds rows back.
    _holding_back: set[tuple[str, str]] = field(default_factory=set, init=False)
    # Datasets whose rows depend on another dataset's rows, by that other dataset.
    _rows_of: dict[str, set[str]] = field(default_factory=dict, init=False)
    # Checked datasets and the identifiers in the check, by each other dataset that the check names.
    _checked: dict[str, list[tuple[str, frozenset[str]]]] = field(default_factory=dict, init=False)
    _histories: dict[str, str] = field(default_factory=dict, init=False)
    _fed: dict[str, str] = field(default_factory=dict, init=False)
    _reached: dict[tuple[str, str], str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        same: dict[str, str] = {}
        for before, after in self.sides:
            side = after or before
            if side is None:
                continue
            own = side.key
            for state in (before, after):
                if state is not None:
                    same |= {state.key: own} | ({state.history_key: own} if state.history_key else {})
                    self._states.setdefault(own, []).append(state)
            if before is not None and after is not None and _keeps(before) and _keeps(after):
                self._histories[own] = after.qualified_name
        for key, states in self._states.items():
            for read in {same.get(read, read) for state in states for read in state.inputs} - {key}:
                self._readers.setdefault(read, set()).add(key)
        self._find_references()
        self._find_checks()
        self._find_fed()

    def _find_references(self) -> None:
        """Find the rows that rules for unknown parents add to a parent, or hold back from a child.

        The parent is found by the columns that the foreign key is paired with.
        """
        columns = [(own, column) for own, states in self._states.items() for item in states for column in item.columns]
        owners = {column.key: own for own, column in columns}
        for own, column in columns:
            rule = rule_for_unknown_parents(column) if column.role == FOREIGN_KEY else KEEP
            if rule not in (GHOST, QUARANTINE):
                continue
            parents = (owners.get(pair.partition("=")[2]) for pair in column_pairs(column))
            parent = next(filter(None, parents), None)
            if parent and rule == GHOST:
                self._ghosts[own, column.key] = parent
            if rule == QUARANTINE:
                self._holding_back.add((own, column.key))
                self._rows_of.setdefault(parent or own, set()).add(own)

    def _find_checks(self) -> None:
        """Find the datasets whose rows decide which rows pass a check of another dataset."""
        texts = [
            (own, names_in(text))
            for own, states in self._states.items()
            for state in states
            for text in cross_dataset_check_texts(state.load_policy)
        ]
        if not texts:
            return
        named: dict[str, set[str]] = {}
        for own, states in self._states.items():
            for name in (name for state in states for name in (state.name, history_name(state.name))):
                named.setdefault(name.lower(), set()).add(own)
        for own, words in texts:
            for other in {key for word in words for key in named.get(word, ())} - {own}:
                self._rows_of.setdefault(other, set()).add(own)
                self._checked.setdefault(other, []).append((own, words))

    def _find_fed(self) -> None:
        """Find the datasets whose rows reach a history, each with the first such history by name."""
        inputs: dict[str, list[str]] = {}
        for read, readers in self._readers.items():
            for reader in readers:
                inputs.setdefault(reader, []).append(read)
        for (child, _), parent in self._ghosts.items():
            inputs.setdefault(parent, []).append(child)
        for read, readers in self._rows_of.items():
            for reader in readers - {read}:
                inputs.setdefault(reader, []).append(read)
        for history, name in sorted(self._histories.items(), key=lambda pair: pair[1]):
            waiting = [history]
            while waiting:
                for read in inputs.get(waiting.pop(), ()):
                    if read not in self._fed:
                        self._fed[read] = name
                        waiting.append(read)

    def of_rows(self, dataset: str) -> str:
        """Return the name of a history that a change of a dataset's rows reaches; empty if there is none."""
        return self._fed.get(dataset, "")

    def of_column(self, dataset: str, column: str) -> str:
        """Return the name of a history that a change of one column reaches; empty if there is none."""
        if dataset not in self._fed:
            return ""
        place = (dataset, column)
        if place not in self._reached:
            self._reached[place] = ""  # where datasets read each other in a circle
            self._reached[place] = self._of_column(dataset, column)
        return self._reached[place]

    def of_name(self, dataset: str, name: str) -> str:
        """Return the name of a history that a column reaches by taking a name that readers' texts already contain."""
        if dataset not in self._fed:
            return ""
        names = frozenset((name,))
        for reader in sorted(self._readers.get(dataset, ())):
            states = self._states[reader]
            if len(states) < 2:
                continue
            before, after = states
            history = self._histories.get(reader)
            if before.filter == after.filter and _mentions(after.filter, names):
                reached_history = history or self.of_rows(reader)
            else:
                there = {column.key: column for column in before.columns}
                named = [
                    column
                    for column in after.columns
                    if _names(column, names) and _stays(column, there.get(column.key))
                ]
                reached = (history or self.of_column(reader, column.key) for column in named)
                reached_history = next(filter(None, reached), "")
            if reached_history:
                return reached_history
        return ""

    def _of_column(self, dataset: str, column: str) -> str:
        own = [column for state in self._states[dataset] for column in state.columns]
        if any(own_column.key == column and own_column.role == BUSINESS_KEY for own_column in own):
            return self.of_rows(dataset)
        names = frozenset(own_column.name.lower() for own_column in own if own_column.key == column)
        tables = {name.lower() for state in self._states[dataset] for name in _tables_of(state)}
        pairs = [pair for pair in own if pair.role == FOREIGN_KEY and column in _children(pair)]
        reached = [self.of_column(dataset, pair.key) for pair in pairs]
        if parent := self._ghosts.get((dataset, column)):
            reached.append(self._histories.get(parent) or self.of_rows(parent))
        if (dataset, column) in self._holding_back:
            reached.append(self._histories.get(dataset) or self.of_rows(dataset))
        checking = (other for other, words in self._checked.get(dataset, ()) if words & names)
        reached += [self._histories.get(other) or self.of_rows(other) for other in checking]
        return next((name for name in (*reached, *self._in_readers(dataset, column, names, tables)) if name), "")

    def _in_readers(self, dataset: str, column: str, names: frozenset[str], tables: set[str]) -> Iterable[str]:
        for reader in sorted(self._readers.get(dataset, ())):
            for state in self._states[reader]:
                reached = [candidate for candidate in state.columns if _reads(candidate, column, names)]
                unknown = not any(column.inputs or column.expression for column in state.columns)
                decides = state.select is not None and state.select != "" and decides_rows(state.select, tables, names)
                if unknown or decides or _mentions(state.filter, names):
                    yield self._histories.get(reader) or self.of_rows(reader)
                elif reached:
                    name = self._histories.get(reader)
                    yield name or next(filter(None, (self.of_column(reader, item.key) for item in reached)), "")


def _keeps(state: DatasetState) -> bool:
    return state.historize and state.materialization == "table"


def _tables_of(state: DatasetState) -> tuple[str, str]:
    """Return the names under which models read a dataset and its history."""
    return state.qualified_name, f"{state.schema}.{history_name(state.name)}"


def _stays(after: ColumnState, before: ColumnState | None) -> bool:
    if before is None or before.expression != after.expression:
        return False
    return bool(after.expression) or before.name.lower() == after.name.lower()


def _children(column: ColumnState) -> set[str]:
    return {pair.partition("=")[0] for pair in column.inputs}


def _reads(column: ColumnState, key: str, names: frozenset[str]) -> bool:
    return key in column.inputs or _names(column, names)


def _names(column: ColumnState, names: frozenset[str]) -> bool:
    """Return True if a column reads one of these names; without expression and inputs it reads its own name."""
    by_name = not column.expression and not column.inputs and column.name.lower() in names
    return by_name or _mentions(column.expression, names)


def _mentions(text: str | None, names: frozenset[str]) -> bool:
    """Return True if a text contains one of these names. Of a text that is not accepted SQL, all words count."""
    if not text or names.isdisjoint(names_in(text)):
        return False
    try:
        return not names.isdisjoint(name.lower() for name in check_expression(text))
    except MetadataError:
        return True


def carried_downstream(drafts: list[Draft], same: Mapping[str, str], downstream: Downstream) -> list[Draft]:
    """Return the drafts, with those that reach a history marked as changing its comparison.

    ``same`` maps the dataset keys in operations to those in the desired state.
    """
    return [_carried(_named(draft, same, downstream), same, downstream) for draft in drafts]


def _named(draft: Draft, same: Mapping[str, str], downstream: Downstream) -> Draft:
    """Return the draft, marked if the column takes a name that an unchanged text of a reader already contains.

    After the rename the text refers to this column, although the reader is unchanged.
    """
    operation = draft.operation
    if operation.op not in NAMING or operation.side != BASE or operation.code not in ("", VIEW_COLUMN):
        return draft
    key = same.get(operation.dataset_key, operation.dataset_key)
    history = downstream.of_name(key, draft.takes)
    return replace(draft, operation=_differs(operation, history)) if history else draft


def _carried(draft: Draft, same: Mapping[str, str], downstream: Downstream) -> Draft:
    operation = draft.operation
    if not draft.alters or operation.code not in ("", VIEW_COLUMN):
        return draft
    key = same.get(operation.dataset_key, operation.dataset_key)
    column = operation.column_key
    history = downstream.of_column(key, column) if column else downstream.of_rows(key)
    return replace(draft, operation=_differs(operation, history)) if history else draft


def _differs(operation: Operation, history: str) -> Operation:
    message = f"the history of {history} is built from it"
    return replace(operation, code=HISTORY_DIFFERS, message=", ".join(filter(None, (operation.message, message))))
