"""Details of sensitive columns: classification, owner, copies, readers and last reads."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from elevata.accounts.access import grounds, holders, with_grounds
from elevata.accounts.places import Place
from elevata.accounts.roles import Permission
from elevata.audit.models import ChangeLogEntry
from metadata.domain.column_lineage import HISTORY, SOURCE, TARGET
from metadata.domain.sensitivity import SENSITIVE
from metadata.models import SourceColumn, TargetColumn, TargetDataset
from metadata.permissions import place_of_data
from metadata.selectors.sensitive_columns import INHERITED, PERSONAL, Sensitivity, sensitivity

# Recorded reads of sensitive values that are searched for the last read of a column.
READS_SEARCHED = 5_000
READERS_NAMED = 3
READS = {"subject_kind": "data", "action": "read"}
_HISTORY = "dataset__history"
_COPY = (
    *("pk", "name", "dataset__schema__name", "dataset__name", "dataset__schema__layer"),
    *(f"{_HISTORY}__schema__name", f"{_HISTORY}__name"),
)
_BY_LAYER = ("dataset__schema__ordinal", "dataset__schema__name", "dataset__name", "ordinal", "pk")


@dataclass(frozen=True)
class Copy:
    """Column that has the values of a sensitive column, or is computed from them."""

    dataset: str
    name: str
    layer: str


@dataclass(frozen=True)
class LastRead:
    """Newest recorded read of a column's values without a mask."""

    at: datetime
    actor: str
    kind: str


@dataclass(frozen=True)
class SensitiveColumn:
    """Sensitive column with all that its list shows.

    ``copies`` are the columns downstream, ``readers`` the names of the users who may read its values without a mask.
    ``searched`` is False if there are older recorded reads than those that were searched.
    """

    column: TargetColumn | SourceColumn
    classes: tuple[str, ...]
    owner: str
    copies: tuple[Copy, ...]
    readers: tuple[str, ...]
    last_read: LastRead | None
    searched: bool

    @property
    def more_readers(self) -> int:
        """Return the number of readers beyond the first three, which the list names."""
        return max(len(self.readers) - READERS_NAMED, 0)

    @property
    def copied_to(self) -> list[str]:
        """Return the names of the datasets with copies."""
        return list(dict.fromkeys(copy.dataset for copy in self.copies))


def detailed(columns: Sequence[TargetColumn | SourceColumn]) -> list[SensitiveColumn]:
    """Return columns of one kind with their details, in a number of queries that does not depend on theirs."""
    if not columns:
        return []
    known = sensitivity()
    copies = _copies(columns, known)
    readers = readers_by_place({place_of_data(column) for column in columns})
    reads, searched = _last_reads(columns)
    return [
        SensitiveColumn(
            column,
            _classes_of(column, known),
            _owner_of(column),
            copies[column.pk],
            readers[place_of_data(column)],
            reads.get(column.pk),
            searched or column.pk in reads,
        )
        for column in columns
    ]


def with_classes(columns: Iterable[TargetColumn]) -> list[tuple[TargetColumn, tuple[str, ...]]]:
    """Return sensitive columns with their classes."""
    known = sensitivity()
    return [(column, _classes_of(column, known)) for column in columns]


def _classes_of(column: TargetColumn | SourceColumn, known: Sensitivity) -> tuple[str, ...]:
    """Return the classes of a sensitive column; ``inherited`` is the last of one that is not classified itself."""
    if isinstance(column, SourceColumn):
        return _own_classes(column, "")
    own = _own_classes(column, column.dataset.sensitivity)
    classes = tuple(dict.fromkeys((*own, *known.classes.get((TARGET, column.pk), ()))))
    return classes if own else (*classes, INHERITED)


def _own_classes(column: TargetColumn | SourceColumn, of_dataset: str) -> tuple[str, ...]:
    level = column.sensitivity or of_dataset
    return (*((PERSONAL,) if column.pii else ()), *((level,) if level in SENSITIVE else ()))


def _kind(column: TargetColumn | SourceColumn) -> str:
    return SOURCE if isinstance(column, SourceColumn) else TARGET


def _owner_of(column: TargetColumn | SourceColumn) -> str:
    dataset = column.dataset
    within = dataset.schema if isinstance(dataset, TargetDataset) else dataset.system
    return next((each.owner for each in (column, dataset, within) if each.owner), "")


def _copies(columns: Iterable[TargetColumn | SourceColumn], known: Sensitivity) -> dict[int, tuple[Copy, ...]]:
    """Return the copies of columns: the columns downstream, and histories, also of the columns themselves."""
    downstream = {column.pk: known.downstream((_kind(column), column.pk)) for column in columns}
    own = {column.pk for column in columns if isinstance(column, TargetColumn)}
    pks = {pk for nodes in downstream.values() for _, pk in nodes} | own
    rows = TargetColumn.objects.filter(pk__among=list(pks)).order_by(*_BY_LAYER)
    stored, copies = list(rows.values_list(*_COPY)), {}
    for column in columns:
        reached = {pk for _, pk in downstream[column.pk]}
        places = []
        for pk, name, schema, dataset, layer, history_schema, history in stored:
            if pk in reached:
                places.append(Copy(f"{schema}.{dataset}", name, layer))
            if history and (pk in reached or (pk == column.pk and pk in own)):
                places.append(Copy(f"{history_schema}.{history}", name, HISTORY))
        copies[column.pk] = tuple(places)
    return copies


def readers_by_place(places: Collection[Place]) -> dict[Place, tuple[str, ...]]:
    """Return the names of the users who may read sensitive values at each place, without a mask."""
    wanted = (Permission.READ_DATA, Permission.READ_SENSITIVE)
    users = list(with_grounds(holders(Permission.READ_SENSITIVE)))
    return {
        place: tuple(
            user.get_username() for user in users if all(grounds(user, permission, place) for permission in wanted)
        )
        for place in places
    }


def _last_reads(columns: Sequence[TargetColumn | SourceColumn]) -> tuple[dict[int, LastRead], bool]:
    """Return the newest recorded read by column, and True if no older reads are left."""
    by_dataset: dict[str, list[TargetColumn | SourceColumn]] = defaultdict(list)
    for column in columns:
        for name in _dataset_names(column.dataset):
            by_dataset[name].append(column)
    entries = ChangeLogEntry.objects.filter(**READS, subject_key__in=list(by_dataset)).order_by("-pk")
    reads: dict[int, LastRead] = {}
    searched = 0
    for name, at, actor, changes in entries.values_list("subject_key", "at", "actor", "changes")[:READS_SEARCHED]:
        searched += 1
        read = _after(changes)
        names = {str(each).lower() for each in read.get("columns", ())}
        for column in by_dataset[name]:
            if column.pk not in reads and names & _column_names(column) and _is_of(read, column):
                reads[column.pk] = LastRead(at, actor, str(read.get("kind", "")))
        if len(reads) == len(columns):
            break
    return reads, searched < READS_SEARCHED


def _after(changes: str) -> Mapping[str, Any]:
    return {name: values.get("after") for name, values in json.loads(changes).items()}


def _dataset_names(dataset: Any) -> set[str]:
    """Return the names under which reads of a dataset and its history are recorded, also former ones."""
    if not isinstance(dataset, TargetDataset):
        return {str(dataset)}
    history = getattr(dataset, "history", None)
    return {
        f"{each.schema.name}.{name}"
        for each in (dataset, history)
        if each is not None
        for name in (each.name, *each.former_names)
    }


def _column_names(column: Any) -> set[str]:
    return {name.lower() for name in (column.name, *getattr(column, "former_names", ()))}


def _is_of(read: Mapping[str, Any], column: Any) -> bool:
    """Return True unless the read was of another dataset that had the same name."""
    key, history = read.get("dataset"), getattr(column.dataset, "history", None)
    return not key or key in {str(column.dataset.key), str(history.key) if history is not None else ""}
