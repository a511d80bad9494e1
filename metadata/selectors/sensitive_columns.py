"""Sensitive columns of the warehouse and its sources."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.cache import cache
from django.db.models import CharField, Count, F, Max, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce, NullIf

from elevata.accounts.permissions import granted_to, may
from elevata.accounts.places import Place
from elevata.accounts.roles import ROLES, Permission
from elevata.audit.models import ChangeLogEntry
from metadata.domain.column_lineage import SOURCE, TARGET
from metadata.domain.sensitivity import CONFIDENTIAL, RESTRICTED, propagate_sensitivity
from metadata.models import SourceColumn, TargetColumn, TargetDataset
from metadata.permissions import here
from metadata.selectors.classification import classification, column_reads
from metadata.services.rows.subjects import KINDS

PERSONAL, INHERITED = "personal", "inherited"
# Classes of a sensitive column; one that is not classified itself has inherited its classes from what it reads.
_OWN_CLASSES = (PERSONAL, CONFIDENTIAL, RESTRICTED)
CLASSES = (*_OWN_CLASSES, INHERITED)
ColumnId = tuple[str, int]

_CACHE_SECONDS = 3_600
_COUNTED_ENTRIES = 1_000


@dataclass(frozen=True)
class Sensitivity:
    """Classes of all sensitive columns, and the columns that read each of them, by kind and primary key.

    ``classes`` are those of a column itself and of all that it reads. ``readers`` also has nodes for the rows of
    datasets, which a column reads that counts them.
    """

    classes: Mapping[ColumnId, tuple[str, ...]]
    readers: Mapping[ColumnId, tuple[ColumnId, ...]]

    def downstream(self, column: ColumnId) -> set[ColumnId]:
        """Return all columns that read a column or are chosen by it, also indirectly, without the column itself."""
        columns, pending = {column}, [column]
        while pending:
            fresh = set(self.readers.get(pending.pop(), ())) - columns
            columns |= fresh
            pending += fresh
        return {node for node in columns - {column} if node[0] == TARGET}


def sensitivity() -> Sensitivity:
    """Return the sensitive columns of everything; computed once for a state of the metadata."""
    name = f"sensitive-columns:{_signal()}"
    known = cache.get(name)
    if known is None:
        known = _sensitivity()
        cache.set(name, known, _CACHE_SECONDS)
    return known


def _sensitivity() -> Sensitivity:
    datasets = list(TargetDataset.objects.filter(history_of=None).values_list("pk", flat=True))
    reads = column_reads(datasets).with_choices()
    classes: dict[ColumnId, tuple[str, ...]] = {}  # also of nodes for the rows of datasets
    for name in _OWN_CLASSES:
        for column in propagate_sensitivity(_classified_as(name), reads):
            classes[column] = (*classes.get(column, ()), name)
    readers: dict[ColumnId, list[ColumnId]] = defaultdict(list)
    for reader in classes:
        for column in dict.fromkeys(reads.get(reader, ())):
            readers[column].append(reader)
    return Sensitivity(
        {column: own for column, own in classes.items() if column[0] in (TARGET, SOURCE)},
        {column: tuple(reader_ids) for column, reader_ids in readers.items()},
    )


def _classified_as(name: str) -> list[ColumnId]:
    """Return the columns that have a class of their own, or by their dataset."""
    targets = TargetColumn.objects.filter(own_class(name, "dataset__")).order_by().values_list("pk", flat=True)
    sources = SourceColumn.objects.filter(own_class(name)).order_by().values_list("pk", flat=True)
    return [*((TARGET, pk) for pk in targets), *((SOURCE, pk) for pk in sources)]


def own_class(name: str, of_dataset: str = "") -> Q:
    """Return the condition that a column has this class itself; with ``of_dataset``, or by its dataset's level."""
    if name == PERSONAL:
        return Q(pii=True)
    level = Q(sensitivity=name)
    return level | Q(sensitivity="", **{f"{of_dataset}sensitivity": name}) if of_dataset else level


def target_pks(name: str = "") -> list[int]:
    """Return the primary keys of the sensitive target columns, of one class or of all."""
    return [pk for (kind, pk), classes in sensitivity().classes.items() if kind == TARGET and name in ("", *classes)]


def sensitive_of(dataset: TargetDataset) -> list[TargetColumn]:
    """Return the active sensitive columns of a dataset; for a history, of its base."""
    base = dataset.history_of or dataset
    rows = TargetColumn.objects.filter(dataset=base, active=True, key__among=list(classification(base).sensitive))
    return list(rows.select_related("dataset__schema").order_by("ordinal", "pk"))


def _signal() -> str:
    """Return a text that changes with every change of metadata.

    An entry may be committed after one with a higher number, so that the newest ones are counted, too.
    """
    entries = ChangeLogEntry.objects.filter(subject_kind__in=list(KINDS.values())).order_by("-pk")
    newest = entries.filter(pk__gt=Coalesce(Subquery(entries.values("pk")[:1]), 0) - _COUNTED_ENTRIES).order_by()
    row = newest.aggregate(last=Max("pk"), count=Count("pk"))
    return f"{row['last']}:{row['count']}"


def target_columns(user: Any) -> QuerySet[TargetColumn]:
    """Return the sensitive columns of the schemas whose sensitive values concern a user.

    Administrators and stewards of everything see all of them.
    """
    rows = TargetColumn.objects.filter(pk__among=target_pks()).filter(places_of(user))
    return rows.select_related("dataset__schema", "dataset__history__schema").defer("expression", "dataset__select")


def source_columns(user: Any) -> QuerySet[SourceColumn]:
    """Return the sensitive columns of sources; none for users without access to sensitive values of sources."""
    rows = SourceColumn.objects.filter(is_classified())
    rows = rows if sees_all(user) else rows.none()
    return rows.select_related("dataset__system")


def sees_all(user: Any) -> bool:
    """Return True for administrators, and for stewards of everything in the environment."""
    return may(user, Permission.MANAGE_USERS, on=Place) or may(user, Permission.READ_SENSITIVE, on=here)


def places_of(user: Any) -> Q:
    if sees_all(user):
        return Q()
    condition = Q(pk__in=())
    for grant in granted_to(user):
        if Permission.READ_SENSITIVE in ROLES[grant.role]:
            condition |= Q(dataset__schema__layer=grant.layer) if grant.layer else Q(dataset__schema__name=grant.schema)
    return condition


def is_classified(of_dataset: str = "") -> Q:
    """Return the condition that a column is sensitive by itself or its dataset, whatever it reads."""
    condition = Q()
    for name in _OWN_CLASSES:
        condition |= own_class(name, of_dataset)
    return condition


def owner_by(*fields: str) -> Coalesce:
    """Return the first owner that is named, of these fields."""
    named = [NullIf(F(field), Value("")) for field in fields]
    return Coalesce(*named, Value(""), output_field=CharField())


OWNER_OF_TARGET = owner_by("owner", "dataset__owner", "dataset__schema__owner")
OWNER_OF_SOURCE = owner_by("owner", "dataset__owner", "dataset__system__owner")
