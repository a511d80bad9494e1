"""Objects downstream that a change of a dataset, column or source, a report or a load run affects.

They are exposures, copies, owners, contracts, saved queries and schedules.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.core.exceptions import ObjectDoesNotExist
from django.urls import reverse

from architecture.models import ChangeReport
from architecture.permissions import place_of_report
from architecture.selectors.dataset_states import described_states
from architecture.services.environments import current_environment
from architecture.services.reports import operations_of
from elevata.accounts.permissions import Where
from loader.contract.refusals import Refusal
from loader.domain import affected as domain
from loader.domain.affected import Affected
from loader.models import DatasetRun, LoadRun, SavedQuery, Schedule
from loader.selectors.copies import active_copies
from loader.services.loads.plans import plan_load
from metadata.domain.scope import SELECTION, Scope
from metadata.models import Exposure, SourceColumn, SourceDataset, TargetColumn, TargetDataset
from metadata.permissions import here, place_of_data
from metadata.selectors.copies import copies_page
from metadata.selectors.dataset_lineage import downstream
from metadata.selectors.impact import Downstream

_PRIVATE = "private query"


@dataclass(frozen=True)
class Subject:
    """Thing whose change or failure affects others: its name, its page, its place, and the stable keys of the datasets.

    With ``has_readers`` the keys include everything downstream; without, the readers are added.
    """

    name: str
    page: str
    place: Where
    keys: frozenset[str]
    has_readers: bool = False


def subject_of(kind: str, key: str) -> Subject:
    """Return a ``dataset``, ``column``, ``source_column``, ``source``, ``report`` or ``run`` by its key or id.

    Raise ObjectDoesNotExist for an unknown one.
    """
    try:
        if "\0" in key:  # PostgreSQL raises an error
            raise ObjectDoesNotExist
        return _KINDS[kind](key if kind == "run" else UUID(key))
    except ValueError:
        raise ObjectDoesNotExist from None


def _dataset(key: Any) -> Subject:
    row = TargetDataset.objects.select_related("schema").get(key=key)
    return Subject(str(row), reverse("dataset_page", args=[row.key]), place_of_data(row), frozenset({str(row.key)}))


def _source(key: Any) -> Subject:
    row = SourceDataset.objects.select_related("system").get(key=key)
    keys = frozenset(map(str, row.generated.values_list("key", flat=True)))
    return Subject(str(row), reverse("source_page", args=[row.key]), here, keys)


def _column(key: Any) -> Subject:
    row = TargetColumn.objects.select_related("dataset__schema").get(key=key)
    page = reverse("column_impact", args=[row.key])
    keys = _keys_of(row, str(row.dataset.key))
    return Subject(f"{row.dataset}.{row.name}", page, place_of_data(row), keys, has_readers=True)


def _source_column(key: Any) -> Subject:
    row = SourceColumn.objects.select_related("dataset__system").get(key=key)
    page = reverse("source_column_impact", args=[row.key])
    return Subject(f"{row.dataset}.{row.name}", page, here, _keys_of(row), has_readers=True)


def _keys_of(column: TargetColumn | SourceColumn, *own: str) -> frozenset[str]:
    return frozenset({*own, *Downstream(column).dataset_keys})


def _report(key: Any) -> Subject:
    row = ChangeReport.objects.defer("content").get(report_id=key)
    keys = frozenset(operation.dataset_key for operation in operations_of(row))
    page = reverse("report_page", args=[row.report_id])
    return Subject(f"the report of {row.title}", page, place_of_report(row), keys)


def _run(key: Any) -> Subject:
    row = LoadRun.objects.get(run_id=key)
    faulty = row.datasets.exclude(status=DatasetRun.Status.SUCCEEDED) | row.datasets.filter(faults__isnull=False)
    keys = frozenset(map(str, faulty.values_list("dataset_key", flat=True)))
    return Subject(f"load run {row.run_id}", reverse("run_page", args=[row.run_id]), here, keys)


_KINDS: Mapping[str, Callable[[Any], Subject]] = {
    "dataset": _dataset,
    "source": _source,
    "column": _column,
    "source_column": _source_column,
    "report": _report,
    "run": _run,
}
KINDS = tuple(_KINDS)


def affected_by(subject: Subject, user: Any) -> tuple[Affected, ...]:
    """Return what a subject affects, by kind and name. Private queries of other users are listed without their names.

    The number of queries does not depend on the number of datasets.
    """
    keys = subject.keys
    if subject.has_readers:
        pks = list(TargetDataset.objects.filter(key__among=keys).values_list("pk", flat=True))
    else:
        pks = downstream(keys).downstream_pks if keys else []
    rows = TargetDataset.objects.filter(pk__among=pks, active=True).select_related("schema")
    datasets = {str(row): row for row in rows}
    own = (*_exposures(pks), *_copies(pks), *_contracts(datasets), *_owners(datasets), *_queries(datasets, user))
    everything = (*own, *_schedules(datasets))
    return tuple(sorted(everything, key=lambda each: (domain.KINDS.index(each.kind), each.name, each.owner)))


def _exposures(pks: Collection[int]) -> Iterator[Affected]:
    rows = Exposure.objects.filter(dataset__id__among=pks, dataset__active=True).select_related("dataset__schema")
    for row in rows:
        page = reverse("dataset_contract", args=[row.dataset.key])
        yield Affected(domain.EXPOSURE, row.name, row.owner, (str(row.dataset),), page)


def _copies(pks: Collection[int]) -> Iterator[Affected]:
    for row in active_copies().filter(dataset__id__among=pks):
        yield Affected(domain.COPY, row.name, row.dataset.owner, (str(row.dataset),), copies_page(row))


def _contracts(datasets: Mapping[str, TargetDataset]) -> Iterator[Affected]:
    for name, row in datasets.items():
        if row.contract:
            yield Affected(domain.CONTRACT, name, row.owner, (name,), reverse("dataset_contract", args=[row.key]))


def _owners(datasets: Mapping[str, TargetDataset]) -> Iterator[Affected]:
    names: defaultdict[str, list[str]] = defaultdict(list)
    for name, row in datasets.items():
        if row.owner and row.history_of_id is None:
            names[row.owner].append(name)
    for owner, owned in names.items():
        yield Affected(domain.OWNER, owner, owner, tuple(sorted(owned)))


def _queries(datasets: Mapping[str, TargetDataset], user: Any) -> Iterator[Affected]:
    for row in SavedQuery.objects.select_related("owner"):
        tables = domain.tables_of_query(row.text, tuple(datasets))
        if not tables:
            continue
        is_listed = row.shared or row.owner_id == user.pk
        page = f"{reverse('sql_page')}?saved={row.key}" if is_listed else ""
        yield Affected(domain.QUERY, row.name if is_listed else _PRIVATE, row.owner.get_username(), tables, page)


def _schedules(datasets: Mapping[str, TargetDataset]) -> Iterator[Affected]:
    environment = current_environment()
    rows = Schedule.objects.filter(active=True, environment=environment, kind=Schedule.Kind.LOAD)
    schedules = [(row, Scope.from_json(row.scope)) for row in rows]
    has_selection = any(scope.kind == SELECTION for _, scope in schedules)
    states = described_states(environment=environment) if has_selection else ()
    for row, scope in schedules:
        selected: Iterable[str] = ()
        if scope.kind == SELECTION:
            try:
                selected = [step.dataset.qualified_name for step in plan_load(scope, states).steps]
            except Refusal:  # its words select nothing any more
                continue
        tables = domain.tables_of_scope(scope, tuple(datasets), frozenset(selected))
        if tables:
            yield Affected(domain.SCHEDULE, row.name, "", tables, reverse("schedule_page", args=[row.key]))
