"""Sensitive columns of the warehouse and its sources, their filters, and their numbers by schema and system."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import django_filters as filters
from django.core.cache import cache
from django.db.models import CharField, Count, F, Max, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce, NullIf

from elevata.accounts.permissions import granted_to, may
from elevata.accounts.roles import ROLES, Permission, Place
from elevata.audit.models import ChangeLogEntry
from elevata.web.paging import StableOrdering, YesNoFilter, is_there
from metadata.domain.column_lineage import SOURCE, TARGET
from metadata.domain.sensitivity import CONFIDENTIAL, RESTRICTED, propagate_sensitivity
from metadata.filtersets import called
from metadata.models import SourceColumn, System, TargetColumn, TargetDataset, TargetSchema
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


# --- columns ---------------------------------------------------------------------------------


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


def _target_pks(name: str = "") -> list[int]:
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
    rows = TargetColumn.objects.filter(pk__among=_target_pks()).filter(_places_of(user))
    return rows.select_related("dataset__schema", "dataset__history__schema").defer("expression", "dataset__select")


def source_columns(user: Any) -> QuerySet[SourceColumn]:
    """Return the sensitive columns of sources; none for users without access to sensitive values of sources."""
    rows = SourceColumn.objects.filter(_is_classified())
    rows = rows if sees_all(user) else rows.none()
    return rows.select_related("dataset__system")


def sees_all(user: Any) -> bool:
    """Return True for administrators, and for stewards of everything in the environment."""
    return may(user, Permission.MANAGE_USERS, on=Place) or may(user, Permission.READ_SENSITIVE, on=here)


def _places_of(user: Any) -> Q:
    if sees_all(user):
        return Q()
    condition = Q(pk__in=())
    for grant in granted_to(user):
        if Permission.READ_SENSITIVE in ROLES[grant.role]:
            condition |= Q(dataset__schema__layer=grant.layer) if grant.layer else Q(dataset__schema__name=grant.schema)
    return condition


def _is_classified(of_dataset: str = "") -> Q:
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


# --- numbers ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class SensitiveCount:
    """Number of sensitive columns of a schema or system, and of the personal ones among them."""

    name: str
    layer: str
    columns: int
    personal: int


def counts_by_schema(user: Any = None) -> dict[str, SensitiveCount]:
    """Return the numbers of active sensitive columns by schema, in the order of the layers.

    With a user, they are the numbers of ``target_columns``.
    """
    rows = TargetColumn.objects.filter(pk__among=_target_pks(), active=True, dataset__active=True)
    rows = rows if user is None else rows.filter(_places_of(user))
    personal, schema = Q(pk__among=_target_pks(PERSONAL)), "dataset__schema"
    return _counts(rows, personal, f"{schema}__name", f"{schema}__layer", f"{schema}__ordinal")


def counts_by_system(user: Any = None) -> dict[str, SensitiveCount]:
    """Return the numbers of active sensitive columns by system; with a user, those of ``source_columns``."""
    rows = SourceColumn.objects.filter(_is_classified(), active=True, dataset__active=True)
    rows = rows if user is None or sees_all(user) else rows.none()
    return _counts(rows.annotate(layer=Value(SOURCE)), Q(pii=True), "dataset__system__short_name", "layer")


def _counts(rows: QuerySet, personal: Q, name: str, layer: str, *order: str) -> dict[str, SensitiveCount]:
    grouped = rows.order_by().values(name, layer, *order)
    numbers = grouped.annotate(count=Count("pk"), personal=Count("pk", filter=personal)).order_by(*order, name)
    return {row[name]: SensitiveCount(row[name], row[layer], row["count"], row["personal"]) for row in numbers}


# --- filters ---------------------------------------------------------------------------------


_CLASS_CHOICES = tuple((name, name.capitalize()) for name in CLASSES)


class SensitiveColumnFilter(filters.FilterSet):
    """Filter of sensitive target columns."""

    q = filters.CharFilter(method="search", label="Text")
    schema = filters.CharFilter(field_name="dataset__schema__name", label="Schema")
    layer = filters.ChoiceFilter(field_name="dataset__schema__layer", choices=TargetSchema.Layer.choices, label="Layer")
    classification = filters.ChoiceFilter(method="of_class", choices=_CLASS_CHOICES, label="Class")
    owner = filters.CharFilter(method="of_owner", label="Owner")
    active = YesNoFilter(field_name="active", label="Active")
    ordering = StableOrdering(
        fields=(
            "name",
            ("dataset__name", "dataset"),
            ("dataset__schema__name", "schema"),
            ("dataset__schema__layer", "layer"),
            "active",
        ),
        computed={"owner": OWNER_OF_TARGET},
        default=("dataset__schema__ordinal", "dataset__schema__name", "dataset__name", "ordinal"),
    )

    known: ClassVar = {"schema": is_there(TargetSchema, "name")}

    class Meta:
        model = TargetColumn
        fields = ()

    def search(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        """Filter by names and former names of columns, and by names of datasets."""
        return queryset.filter(called(value) | Q(dataset__name__icontains=value))

    def of_class(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        if value == INHERITED:
            return queryset.exclude(_is_classified("dataset__"))
        return queryset.filter(pk__among=_target_pks(value))

    def of_owner(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.alias(named_owner=OWNER_OF_TARGET).filter(named_owner__icontains=value)


class SensitiveSourceColumnFilter(filters.FilterSet):
    """Filter of sensitive source columns."""

    q = filters.CharFilter(method="search", label="Text")
    system = filters.CharFilter(field_name="dataset__system__short_name", label="System")
    classification = filters.ChoiceFilter(method="of_class", choices=_CLASS_CHOICES[:-1], label="Class")
    owner = filters.CharFilter(method="of_owner", label="Owner")
    active = YesNoFilter(field_name="active", label="Active")
    ordering = StableOrdering(
        fields=("name", ("dataset__name", "dataset"), ("dataset__system__short_name", "system"), "active"),
        computed={"owner": OWNER_OF_SOURCE},
        default=("dataset__system__short_name", "dataset__name", "ordinal"),
    )

    known: ClassVar = {"system": is_there(System, "short_name")}

    class Meta:
        model = SourceColumn
        fields = ()

    def search(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        """Filter by names of columns and of datasets."""
        return queryset.filter(Q(name__icontains=value) | Q(dataset__name__icontains=value))

    def of_class(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.filter(own_class(value))

    def of_owner(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.alias(named_owner=OWNER_OF_SOURCE).filter(named_owner__icontains=value)
