"""Results of quality checks for pages: newest results, the picture of the last ones, and failures upstream."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import F, Max, QuerySet, Window
from django.db.models.functions import RowNumber
from django.urls import reverse
from django.utils import timezone

from architecture.models import Environment
from architecture.services.environments import current_environment
from elevata.core.words import counted
from loader.contract.check_outcomes import BROKEN, PROBLEMS, QUARANTINED, WARNED, Result
from loader.domain.quality.picture import Picture, draw
from loader.domain.quality.profiles import ColumnProfile, Suggestion, suggested
from loader.models import CheckResult, ReadRequest, TableProfile
from loader.selectors.readable_results import readable_results
from loader.services.quality_results import fields_of_result
from loader.services.reads.read_permissions import may_read, may_read_sensitive
from metadata.domain.quality.check_kinds import KINDS, QUERY
from metadata.models import DatasetInput, QualityCheck, TargetColumn, TargetDataset
from metadata.selectors.classification import classification

SHOWN = 30


@dataclass
class CheckLine:
    """Check of a dataset with its last results, the newest first."""

    check: QualityCheck
    results: list[CheckResult] = field(default_factory=list)

    @property
    def newest(self) -> CheckResult | None:
        return self.results[0] if self.results else None

    @property
    def rows_address(self) -> str:
        """Return the address of the page with the rows that failed in the newest result; empty without such a page.

        A load keeps the failing rows of a check that warns. A result without a run is one of the table as it is.
        """
        newest, check = self.newest, self.check
        if newest is None or not newest.is_problem or not check.active or newest.outcome == BROKEN:
            return ""
        return failing_rows_address(check.dataset, newest)

    @property
    def picture(self) -> Picture:
        """Return the last results as a picture, the oldest first."""
        return draw(list(reversed(self.results)))


def failing_rows_address(dataset: TargetDataset, result: CheckResult) -> str:
    """Return the address of the page with the rows of a dataset that failed a check; empty without such a page."""
    if result.kind == QUERY:
        return f"{reverse('sql_page')}?check={result.check_key}"
    if not KINDS[result.kind].finds_rows or not result.is_problem:
        return ""
    if result.outcome == WARNED or result.run_id is None:
        return f"{reverse('dataset_data', args=[dataset.key])}?failing={result.check_key}"
    return reverse("dataset_quarantine", args=[dataset.key]) if result.outcome == QUARANTINED else ""


def results_of_read(read: ReadRequest, user: Any) -> list[CheckResult]:
    """Return the results of a read that ran checks, as ``readable_results``; they are not stored rows."""
    dataset = read.own_dataset
    rows = [
        CheckResult(
            environment=read.environment,
            dataset=dataset,
            dataset_key=dataset.key,
            dataset_name=str(dataset),
            at=read.finished_at or timezone.now(),
            **fields_of_result(Result.from_json(described)),
        )
        for described in read.content["results"]
    ]
    return readable_results(rows, user)


def check_lines(dataset: TargetDataset, user: Any) -> list[CheckLine]:
    """Return a dataset's checks, active ones first, with their last results in this environment, for a user."""
    checks = QualityCheck.objects.filter(dataset=dataset).select_related("dataset__schema")
    lines = [CheckLine(check) for check in checks.order_by("-active", "name")]
    by_key = {line.check.key: line for line in lines}
    results = CheckResult.objects.filter(environment=current_environment(), check_key__among=by_key)
    place = Window(RowNumber(), partition_by=F("check_key"), order_by=F("pk").desc())
    newest = results.annotate(place=place).filter(place__lte=SHOWN).select_related("run")
    for result in readable_results(newest.order_by("-pk"), user):
        by_key[result.check_key].results.append(result)
    return lines


def results_of_run(run_pk: int, keys: Collection[str], user: Any) -> dict[str, list[CheckResult]]:
    """Return the results of a run, for a user, by the stable keys of its datasets."""
    by_dataset: dict[str, list[CheckResult]] = defaultdict(list)
    results = CheckResult.objects.filter(run_id=run_pk, dataset_key__in=list(keys)).order_by("check_name", "pk")
    for result in readable_results(results, user):
        by_dataset[str(result.dataset_key)].append(result)
    return by_dataset


def newest_problems(datasets: Iterable[int] | QuerySet, environment: Environment) -> QuerySet[CheckResult]:
    """Return the failed results among the newest ones of the active checks of these datasets, in loads."""
    chosen = datasets if isinstance(datasets, QuerySet) else list(datasets)
    checks = QualityCheck.objects.filter(dataset__in=chosen, active=True).values("key")
    results = CheckResult.objects.filter(check_key__in=checks, environment=environment, run__isnull=False)
    newest = results.order_by().values("check_key").annotate(newest=Max("pk")).values("newest")
    return CheckResult.objects.filter(pk__in=newest, outcome__in=PROBLEMS).order_by("dataset_name", "check_name")


def failing_columns(datasets: Collection[int] | None = None) -> dict[int, list[str]]:
    """Return the names of the failed checks of each column that such a check names, by primary key.

    A check counts by its newest result in loads of this environment. ``datasets`` limits them; None means all.
    """
    of = TargetDataset.objects.all() if datasets is None else TargetDataset.objects.filter(pk__in=list(datasets))
    failed = newest_problems(of.order_by().values("pk"), current_environment()).values("check_key")
    rules = defaultdict(list)
    for check in QualityCheck.objects.filter(key__in=failed.order_by()).order_by("name"):
        rules[check.dataset_id].append((check.name, check.rule))
    columns = TargetColumn.objects.filter(dataset__in=rules.keys(), active=True)
    names: dict[int, list[str]] = {}
    for pk, dataset, name in columns.order_by().values_list("pk", "dataset_id", "name"):
        if failing := [of_check for of_check, rule in rules[dataset] if rule.names_column(name)]:
            names[pk] = failing
    return names


@dataclass(frozen=True)
class FailedUpstream:
    """Failed checks of the datasets that a dataset is built on."""

    results: tuple[CheckResult, ...]

    @property
    def text(self) -> str:
        """Return the mark in words."""
        return f"Built on data that failed {counted(len(self.results), 'check')}"

    @property
    def datasets(self) -> list[tuple[Any, str, int]]:
        """Return the datasets concerned: metadata key (None for one not described), name, number of failed checks."""
        numbers: dict[tuple[Any, str], int] = defaultdict(int)
        for result in self.results:
            numbers[result.dataset.key if result.dataset else None, result.dataset_name] += 1
        return [(key, name, number) for (key, name), number in numbers.items()]


def failed_upstream(dataset: TargetDataset) -> FailedUpstream | None:
    """Return the failed checks of the datasets upstream; None if there are none."""
    environment = current_environment()
    if not CheckResult.objects.filter(environment=environment, outcome__in=PROBLEMS).exists():
        return None
    base = dataset.history_of_id or dataset.pk
    upstream = {base} if dataset.history_of_id else set()
    level = {base}
    while level:
        inputs = DatasetInput.objects.filter(dataset__in=level, upstream__isnull=False).order_by()
        level = set(inputs.values_list("upstream_id", flat=True)) - upstream - {base}
        upstream |= level
    results = tuple(newest_problems(upstream, environment).select_related("dataset")) if upstream else ()
    return FailedUpstream(results) if results else None


@dataclass(frozen=True)
class ShownProfile:
    """Stored profile as a user sees it; ``sensitive`` are names of sensitive columns in lower case."""

    rows: int
    columns: tuple[ColumnProfile, ...]
    table_version: int | None
    at: datetime
    sensitive: frozenset[str] = frozenset()

    @property
    def drawn(self) -> list[tuple[ColumnProfile, list[tuple[float, float]]]]:
        """Return the columns with the bars of their histograms: x and height, of 100 and 24."""
        return [(item, _bars(item.histogram)) for item in self.columns]


def _bars(counts: list[int]) -> list[tuple[float, float]]:
    most = max(counts, default=0) or 1
    return [(100 / len(counts) * place, 24 * count / most) for place, count in enumerate(counts)]


def profile_for(user: Any, dataset: TargetDataset) -> ShownProfile | None:
    """Return the newest profile of a dataset that a user may see; None if there is none.

    Values of columns that were classified since are left out for users who may not read them.
    """
    may_see = may_read_sensitive(user, dataset)
    stored = TableProfile.objects.filter(dataset=dataset, environment=current_environment())
    newest = (stored if may_see else stored.filter(masked=True)).order_by("-at", "masked").first()
    if newest is None or not may_read(user, dataset):
        return None
    columns = [ColumnProfile.from_json(item) for item in newest.content["profile"]]
    sensitive = classification(dataset).sensitive_names
    shown = columns if may_see else _without_values(columns, sensitive)
    return ShownProfile(newest.content["rows"], tuple(shown), newest.table_version, newest.at, sensitive)


def _without_values(columns: Iterable[ColumnProfile], sensitive: Collection[str]) -> list[ColumnProfile]:
    return [item.without_values() if item.name.lower() in sensitive else item for item in columns]


def suggestions_for(dataset: TargetDataset, profile: ShownProfile) -> list[Suggestion]:
    """Return the checks that a profile suggests for the dataset's present columns, without those that exist.

    None has values of a sensitive column, because everyone who reads metadata sees the arguments of a check.
    """
    columns = {column.name: column for column in dataset.columns.filter(active=True)}
    checks = QualityCheck.objects.filter(dataset=dataset)
    known = {(check.kind, tuple(check.arguments.get("columns", ()))) for check in checks}
    names = {check.name.lower() for check in checks}
    keys = {name for name, column in columns.items() if column.role == TargetColumn.Role.BUSINESS_KEY}
    present = _without_values((item for item in profile.columns if item.name in columns), profile.sensitive)
    suggestions = suggested(present, known, skip=keys)
    return [suggestion for suggestion in suggestions if suggestion.name.lower() not in names]


def may_see_samples(user: Any, dataset: TargetDataset) -> bool:
    """Return True if a user may see keys of failed rows: with sensitive columns, only a reader of their values."""
    if not may_read(user, dataset):
        return False
    return may_read_sensitive(user, dataset) or not classification(dataset).sensitive
