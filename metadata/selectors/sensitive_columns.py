"""Sensitive columns of the warehouse and its sources, their filters, and their numbers by schema and system."""

from dataclasses import dataclass
from typing import Any, ClassVar

import django_filters as filters
from django.conf import settings
from django.core.cache import cache
from django.db.models import Case, CharField, Count, F, IntegerField, Max, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Coalesce, NullIf

from elevata.accounts.permissions import granted_to, may
from elevata.accounts.roles import ROLES, Permission, Place
from elevata.audit.models import ChangeLogEntry
from elevata.web.paging import StableOrdering, YesNoFilter, is_there
from metadata.domain.column_lineage import SOURCE
from metadata.domain.sensitivity import CONFIDENTIAL, RESTRICTED, SENSITIVE
from metadata.filtersets import called
from metadata.models import SourceColumn, System, TargetColumn, TargetDataset, TargetSchema
from metadata.selectors.classification import classification, classifications

PERSONAL, INHERITED = "personal", "inherited"
# Classes of a sensitive column; an inherited one is sensitive because of what it reads.
CLASSES = (PERSONAL, CONFIDENTIAL, RESTRICTED, INHERITED)
_CACHE_SECONDS = 3_600
# Entries that are counted, because one may be committed after another with a higher number.
_COUNTED_ENTRIES = 1_000
READS = {"subject_kind": "data", "action": "read"}


# --- columns ---------------------------------------------------------------------------------


def sensitive_keys() -> frozenset[str]:
    """Return the stable keys of all sensitive target columns; computed once for a state of the change log."""
    name = f"sensitive-columns:{_signal()}"
    known = cache.get(name)
    if known is None:
        datasets = TargetDataset.objects.filter(history_of=None).values_list("pk", flat=True)
        found = classifications(list(datasets)).values()
        known = frozenset(key for classified in found for key in classified.sensitive)
        cache.set(name, known, _CACHE_SECONDS)
    return known


def sensitive_of(dataset: TargetDataset) -> list[TargetColumn]:
    """Return the active sensitive columns of a dataset; for a history, of its base."""
    base = dataset.history_of or dataset
    rows = TargetColumn.objects.filter(dataset=base, active=True, key__among=list(classification(base).sensitive))
    return list(rows.select_related("dataset__schema").order_by("ordinal", "pk"))


def _signal() -> str:
    """Return a text that changes with every change of metadata."""
    entries = ChangeLogEntry.objects.exclude(**READS).order_by("-pk")
    newest = entries.filter(pk__gt=Coalesce(Subquery(entries.values("pk")[:1]), 0) - _COUNTED_ENTRIES).order_by()
    row = newest.aggregate(last=Max("pk"), count=Count("pk"))
    return f"{row['last']}:{row['count']}"


def target_columns(user: Any) -> QuerySet[TargetColumn]:
    """Return the sensitive columns of the schemas whose sensitive values concern a user.

    Administrators and stewards of everything see all of them.
    """
    rows = TargetColumn.objects.filter(key__among=sensitive_keys()).filter(_places_of(user))
    return rows.select_related("dataset__schema", "dataset__history__schema").defer("expression", "dataset__select")


def source_columns(user: Any) -> QuerySet[SourceColumn]:
    """Return the sensitive columns of sources; none for users without access to sensitive values of sources."""
    rows = SourceColumn.objects.filter(_classified(""))
    rows = rows if _sees_all(user) else rows.none()
    return rows.select_related("dataset__system")


def _sees_all(user: Any) -> bool:
    here = Place(environment=settings.ENVIRONMENT)
    return may(user, Permission.MANAGE_USERS, on=Place) or may(user, Permission.READ_SENSITIVE, on=here)


def _places_of(user: Any) -> Q:
    if _sees_all(user):
        return Q()
    found = Q(pk__in=())
    for grant in granted_to(user):
        if Permission.READ_SENSITIVE in ROLES[grant.role]:
            found |= Q(dataset__schema__layer=grant.layer) if grant.layer else Q(dataset__schema__name=grant.schema)
    return found


def _classified(of_dataset: str) -> Q:
    """Return the condition that a column is classified itself, or by its dataset if that has a level."""
    own = Q(pii=True) | Q(sensitivity__in=SENSITIVE)
    return own | Q(sensitivity="", **{f"{of_dataset}sensitivity__in": SENSITIVE}) if of_dataset else own


def of_class(rows: QuerySet, name: str) -> QuerySet:
    """Return the columns of one of ``CLASSES``."""
    of_dataset = "dataset__" if rows.model is TargetColumn else ""
    if name == PERSONAL:
        return rows.filter(pii=True)
    if name == INHERITED:
        return rows.exclude(_classified(of_dataset)) if of_dataset else rows.none()
    by_dataset = Q(sensitivity="", dataset__sensitivity=name) if of_dataset else Q(pk__in=())
    return rows.filter(Q(sensitivity=name) | by_dataset)


def class_rank(of_dataset: str = "") -> Case:
    """Return an order of columns by class: personal, restricted, confidential, inherited."""
    whens = [When(pii=True, then=0)]
    for rank, level in enumerate((RESTRICTED, CONFIDENTIAL), 1):
        own = Q(sensitivity=level)
        whens.append(When(own | Q(sensitivity="", dataset__sensitivity=level) if of_dataset else own, then=rank))
    return Case(*whens, default=Value(3), output_field=IntegerField())


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
    rows = TargetColumn.objects.filter(key__among=sensitive_keys(), active=True, dataset__active=True)
    rows = rows if user is None else rows.filter(_places_of(user))
    return _counts(rows, "dataset__schema__name", "dataset__schema__layer", "dataset__schema__ordinal")


def counts_by_system(user: Any = None) -> dict[str, SensitiveCount]:
    """Return the numbers of active sensitive columns by system; with a user, those of ``source_columns``."""
    rows = SourceColumn.objects.filter(_classified(""), active=True, dataset__active=True)
    rows = rows if user is None or _sees_all(user) else rows.none()
    return _counts(rows.annotate(layer=Value(SOURCE)), "dataset__system__short_name", "layer")


def _counts(rows: QuerySet, name: str, layer: str, *order: str) -> dict[str, SensitiveCount]:
    grouped = rows.order_by().values(name, layer, *order)
    numbers = grouped.annotate(count=Count("pk"), personal=Count("pk", filter=Q(pii=True))).order_by(*order, name)
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
        fields=("name", ("dataset__name", "dataset"), ("dataset__schema__name", "schema")),
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
        return of_class(queryset, value)

    def of_owner(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.alias(named_owner=OWNER_OF_TARGET).filter(named_owner__icontains=value)


class SensitiveColumnListFilter(SensitiveColumnFilter):
    """Filter of the page, which can also be sorted by what is computed."""

    ordering = StableOrdering(
        fields=("name", ("dataset__schema__layer", "layer"), "active"),
        computed={"classification": class_rank("dataset__"), "owner": OWNER_OF_TARGET},
        default=("dataset__schema__ordinal", "dataset__schema__name", "dataset__name", "ordinal"),
    )


class SensitiveSourceColumnFilter(filters.FilterSet):
    """Filter of sensitive source columns."""

    q = filters.CharFilter(method="search", label="Text")
    system = filters.CharFilter(field_name="dataset__system__short_name", label="System")
    classification = filters.ChoiceFilter(method="of_class", choices=_CLASS_CHOICES[:-1], label="Class")
    owner = filters.CharFilter(method="of_owner", label="Owner")
    active = YesNoFilter(field_name="active", label="Active")
    ordering = StableOrdering(
        fields=("name", ("dataset__name", "dataset"), ("dataset__system__short_name", "system")),
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
        return of_class(queryset, value)

    def of_owner(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.alias(named_owner=OWNER_OF_SOURCE).filter(named_owner__icontains=value)


class SensitiveSourceColumnListFilter(SensitiveSourceColumnFilter):
    """Filter of the page, which can also be sorted by what is computed."""

    ordering = StableOrdering(
        fields=("name", ("dataset__system__short_name", "system"), "active"),
        computed={"classification": class_rank(), "owner": OWNER_OF_SOURCE},
        default=("dataset__system__short_name", "dataset__name", "ordinal"),
    )
