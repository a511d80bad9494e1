"""All readable URLs of the web app and the API: every route, filled with existing objects."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db import transaction
from django.urls import reverse

from architecture.models import DryRun, HealthFinding, Preview, Refresh
from architecture.services.refreshes import request_refresh
from bench.problem import BenchProblem
from bench.web.control import Control
from elevata.audit.models import ChangeLogEntry
from elevata.lists.services import save_filter, set_favourite
from elevata.notifications.models import Delivery, Notice, Webhook
from loader.contract.run_states import REVERT
from loader.domain.sources.schema_changes import ObservedColumn
from loader.models import LoadRun, MaintenanceRecord, ReadRequest, SourceProposal
from loader.services.maintenance.records import seal_end
from loader.services.reads.queries import SQL
from loader.services.reads.read_requests import request_query, request_trial
from loader.services.reads.trials import TRY_MODEL
from loader.services.sources.observations import observe_schema
from metadata.domain.types import parse
from metadata.models import DatasetCopy, QualityCheck, Reference, SourceDataset, TargetDataset
from metadata.services.copies import create_copy
from metadata.services.quality import create_check
from metadata.services.sources import create_system
from tests.elevata.web.routes import RULES
from tests.factories import CommentFactory, DeliveryFactory, NoticeFactory, WebhookFactory

# Not pages: their responses do not come from the database.
_NOT_ASKED = ("sign_in", "healthz")
# The report of the routes is executed, so it has no statements any more.
_WITHOUT_STATEMENTS = ("api-report-sql", "report_sql_file")
# Objects without an example in the routes are not measured.
_REFUSED = 400


@dataclass(frozen=True)
class Page:
    """URL to measure, with its route and its special properties."""

    route: str
    address: str
    what: str = ""

    @property
    def name(self) -> str:
        return f"{self.route} ({self.what})" if self.what else self.route


def pages(control: Control) -> list[Page]:
    """Return every readable route once, then those for which size or search matters."""
    return [*_of_routes(control), *_more(control)]


def _of_routes(control: Control) -> Iterator[Page]:
    things = Things(control)
    for name, rule in RULES.items():
        nothing = all(isinstance(status, int) and status >= _REFUSED for status in (rule.reader, rule.operator))
        if rule.method == "get" and name not in (*_NOT_ASKED, *_WITHOUT_STATEMENTS) and not nothing:
            address = reverse(name, kwargs=dict(things.of(value, name) for value in rule.values))
            data = rule.data | ({"run": control.busy.run_id} if "run" in rule.data else {})
            yield Page(name, f"{address}?{urlencode(data)}" if data else address)


def _more(control: Control) -> Iterator[Page]:
    hub, datasets = control.hub.key, reverse("dataset_list")
    word = control.dataset.name.rsplit("_", 1)[-1]
    yield Page("dataset_list", f"{datasets}?q={word}", "found by a name")
    yield Page("dataset_list", f"{datasets}?q=amount", "found by a column")
    yield Page("dataset_list", f"{datasets}?layer=rawcore&page=2", "of a layer")
    search = reverse("search")
    yield Page("search", f"{search}?q=amount", "a name of many columns")
    yield Page("search", f"{search}?q={control.dataset}", "a qualified name")
    yield Page("search", f"{search}?q=amuont", "a misspelled name")
    yield Page("dataset_page", reverse("dataset_page", args=[hub]), "referred to by most")
    yield Page("dataset_lineage", reverse("dataset_lineage", args=[hub]), "referred to by most")
    by_column = reverse("column_lineage")
    yield Page("column_lineage", f"{by_column}?focus={control.hub}", "of a dataset")
    column = control.hub.columns.order_by("ordinal")[0]
    yield Page("column_lineage", f"{by_column}?column=target:{column.key}", "of a column")
    yield Page("dataset_retire", reverse("dataset_retire", args=[hub]), "referred to by most")
    yield Page("run_charts", f"{reverse('run_charts')}?status=succeeded", "of everything")
    yield Page("run_page", reverse("run_page", args=[control.night.run_id]), "of everything")
    yield Page("run_live", reverse("run_live", args=[control.busy.run_id]), "under way")
    yield Page("next_step", f"{reverse('next_step')}?dataset={hub}", "of a dataset")
    yield Page("report_page", reverse("report_page", args=[control.executed.report_id]), "executed")
    changes = reverse("change_list")
    yield Page("change_list", f"{changes}?q=as+the+source", "found by a text")
    yield Page("change_list", f"{changes}?dataset={control.dataset}", "of a dataset")
    yield Page("change_list", f"{changes}?page=100", "far back")
    for part in ("report_page", "report_status", "report_behind", "report_differences", "report_downstream"):
        yield Page(part, reverse(part, args=[control.everything.report_id]), "all that is pending")
    for part in ("report_page", "report_behind", "report_differences", "report_downstream"):
        yield Page(part, reverse(part, args=[control.first_day.report_id]), "every dataset anew")


class Things:
    """Values for the parameters of URLs, by name."""

    def __init__(self, control: Control) -> None:
        self._control = control
        dataset, source = control.dataset, control.dataset.generated_from
        self._known: dict[str, Callable[[], tuple[str, Any]]] = {
            "key": lambda: ("key", dataset.key),
            "column_key": lambda: ("key", dataset.columns.order_by("-ordinal")[0].key),
            "source_column_key": lambda: ("key", source.columns.order_by("ordinal")[1].key),
            "source_key": lambda: ("key", source.key),
            "finding": lambda: ("pk", self._finding().pk),
            "saved_filter": lambda: (
                "key",
                save_filter(
                    owner=control.people["everything"], route="dataset_list", name="raw", query="layer=raw"
                ).key,
            ),
            "favourite": lambda: (
                "pk",
                set_favourite(user=control.people["everything"], subject_kind="dataset", subject_key=dataset.key).pk,
            ),
            "comment_kind": lambda: ("kind", "dataset"),
            "comment": lambda: (
                "key",
                CommentFactory(subject_key=dataset.key, author=control.people["everything"]).key,
            ),
            "proposal": lambda: ("key", self._proposal(control.hub.generated_from).key),
            "reference": lambda: ("key", Reference.objects.order_by("pk")[0].key),
            "check": lambda: ("key", self._check().key),
            "contract": lambda: ("key", self._contract().key),
            "exposure": lambda: ("key", self._contract().exposures.get().key),
            "copy": lambda: ("key", self._copy().key),
            "entity_key": lambda: ("entity_key", "a" * 64),
            "run_id": lambda: ("run_id", control.busy.run_id),
            "pk": lambda: ("pk", self._read("key_search").pk),
            "system": lambda: ("short_name", source.system.short_name),
            "kind": lambda: ("kind", "files"),
            "schema": lambda: ("name", "rawcore"),
            "refresh": lambda: ("pk", self._refresh().pk),
            "environment": lambda: ("name", control.report.environment.name),
            "report_id": lambda: ("report_id", control.report.report_id),
            "schedule": lambda: ("key", control.schedule.key),
            "lease": lambda: ("pk", control.lease.pk),
            "maintenance_run": lambda: ("run_id", self._maintenance().run.run_id),
            "maintenance_record": lambda: ("record_id", self._maintenance().record_id),
            "dry_run": lambda: ("pk", self._dry_run().pk),
            "execution": lambda: ("pk", control.execution.pk),
            "record_id": lambda: ("record_id", control.record.record_id),
            "person_name": lambda: ("name", control.people["everything"].get_username()),
            "chapter": lambda: ("name", "use/sources.md"),
            "api_read": lambda: ("pk", self._read("versions").pk),
            "query": lambda: ("pk", self._query().pk),
            "trial": lambda: ("pk", self._trial().pk),
            "change": lambda: ("pk", ChangeLogEntry.objects.latest("pk").pk),
            "webhook": lambda: ("key", self._webhook().key),
            "delivery": lambda: ("pk", self._delivery().pk),
            "notice": lambda: ("pk", self._notice().pk),
        }

    def of(self, value: str, route: str) -> tuple[str, Any]:
        """Return a URL parameter's name and value."""
        if value not in self._known:
            raise BenchProblem(
                f"the address of {route} has {value!r}, and bench/web/pages.py does not say what that is"
            )
        return self._known[value]()

    def _copy(self) -> DatasetCopy:
        known = DatasetCopy.objects.first()
        if known is not None:
            return known
        system = create_system(name="Copies", short_name="copies", kind="duckdb", location="/data/copies/bi.duckdb")
        return create_copy(dataset=self._control.dataset, to=system)

    def _check(self) -> QualityCheck:
        dataset = self._control.dataset
        known = QualityCheck.objects.filter(dataset=dataset).first()
        return known or create_check(dataset=dataset, name="rows", kind="row_count", arguments={"minimum": "1"})

    def _finding(self) -> HealthFinding:
        dataset = self._control.dataset
        return HealthFinding.objects.get_or_create(dataset=dataset, code="orphan", severity="hint")[0]

    def _contract(self) -> TargetDataset:
        return TargetDataset.objects.filter(contract=True).order_by("pk")[0]

    def _read(self, kind: str) -> ReadRequest:
        person, control = self._control.people["everything"], self._control
        return ReadRequest.objects.get_or_create(
            kind=kind,
            environment=control.report.environment,
            dataset=control.dataset,
            requested_by=person,
        )[0]

    def _proposal(self, source: SourceDataset) -> SourceProposal:
        columns = [ObservedColumn(column.name) for column in source.columns.all()]
        made = observe_schema(source=source, columns=[*columns, ObservedColumn("vip", parse("boolean"))])
        if made is None:
            raise BenchProblem(f"{source} has no proposal")
        return made

    def _query(self) -> ReadRequest:
        person = self._control.people["everything"]
        known = ReadRequest.objects.filter(kind=SQL, requested_by=person).first()
        return known or request_query("SELECT 1", 100, user=person).read

    def _trial(self) -> ReadRequest:
        person = self._control.people["everything"]
        known = ReadRequest.objects.filter(kind=TRY_MODEL, requested_by=person).first()
        return known or request_trial("SELECT 1 AS number", user=person).read

    def _refresh(self) -> Refresh:
        return request_refresh(keys=(), purpose="drift", user=self._control.people["everything"]).job

    def _webhook(self) -> Webhook:
        return Webhook.objects.first() or WebhookFactory()

    def _delivery(self) -> Delivery:
        return Delivery.objects.first() or DeliveryFactory(webhook=self._webhook())

    def _notice(self) -> Notice:
        person = self._control.people["everything"]
        return Notice.objects.filter(user=person).first() or NoticeFactory(user=person)

    def _maintenance(self) -> MaintenanceRecord:
        known = MaintenanceRecord.objects.first()
        if known is not None:
            return known
        night = self._control.night
        run = LoadRun.objects.create(
            run_id="reverted",
            kind=REVERT,
            environment=night.environment,
            status="succeeded",
            scope={"kind": "dataset", "name": str(self._control.dataset), "target_only": False},
            load_timestamp=night.load_timestamp,
        )
        with transaction.atomic():
            return seal_end(run_pk=run.pk, attempt=1)

    def _dry_run(self) -> DryRun:
        preview = Preview.objects.order_by("pk")[0]
        return DryRun.objects.get_or_create(preview=preview, status="succeeded")[0]
