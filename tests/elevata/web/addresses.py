"""Addresses of all routes, filled with existing objects."""

from collections.abc import Callable, Mapping
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from architecture.models import DryRun, ExecutionRecord, HealthFinding, Lease, Preview, Refresh
from architecture.services.environments import current_environment
from architecture.services.leases import Holder, take_leases
from architecture.services.refreshes import request_refresh
from elevata.audit.models import ChangeLogEntry
from elevata.lists.services import save_filter, set_favourite
from loader.contract.run_states import REVERT
from loader.domain.sources.schema_changes import ObservedColumn
from loader.models import LoadRun, MaintenanceRecord, ReadRequest, Schedule, SourceProposal
from loader.schedules.services import create_schedule
from loader.services.maintenance.records import seal_end
from loader.services.reads.queries import save_query
from loader.services.reads.read_requests import request_query, request_trial
from loader.services.sources.observations import observe_schema
from metadata.domain.types import parse
from metadata.models import DatasetCopy, QualityCheck, TargetDataset
from metadata.services.copies import create_copy
from metadata.services.quality import create_check
from metadata.services.sources import create_system
from tests.elevata.web.routes import RULES
from tests.factories import CommentFactory, DeliveryFactory, NoticeFactory, WebhookFactory
from tests.loader.factories import LoadRunFactory, ReadRequestFactory
from tests.metadata.contracts import sales_mart


class Addresses(dict):
    """Address of every route, filled with objects that are created on first use.

    ``controlled`` returns the preview of an open report. ``given`` are parameters of addresses by value, which replace
    created ones.
    """

    def __init__(
        self,
        warehouse: TargetDataset,
        person: User,
        controlled: Callable[[], Preview],
        given: Mapping[str, tuple[str, Any]] | None = None,
    ) -> None:
        super().__init__()
        self._warehouse, self._person, self._controlled = warehouse, person, controlled
        self._things: dict[str, tuple[str, Any]] = dict(given or {})

    def __missing__(self, name: str) -> str:
        filled = dict(self._thing(value) for value in RULES[name].values)
        self[name] = reverse(name, kwargs=filled)
        return self[name]

    def _thing(self, value: str) -> tuple[str, Any]:
        known = {
            "key": lambda: ("key", self._warehouse.key),
            "column_key": lambda: ("key", self._warehouse.columns.order_by("ordinal").last().key),
            "source_column_key": lambda: ("key", self._warehouse.generated_from.columns.order_by("ordinal")[1].key),
            "reference": lambda: ("key", self._warehouse.referenced_by.first().key),
            "finding": lambda: (
                "pk",
                HealthFinding.objects.get_or_create(dataset=self._warehouse, code="orphan", severity="hint")[0].pk,
            ),
            "proposal": lambda: ("key", self._proposal().key),
            "check": lambda: ("key", self._check().key),
            "contract": lambda: ("key", self._contract().key),
            "exposure": lambda: ("key", self._contract().exposures.get().key),
            "copy": lambda: ("key", self._copy().key),
            "source_key": lambda: ("key", self._warehouse.generated_from.key),
            "entity_key": lambda: ("entity_key", "a" * 64),
            "run_id": lambda: ("run_id", "bad"),
            "pk": lambda: ("pk", ReadRequestFactory(dataset=self._warehouse, requested_by=self._person).pk),
            "api_read": lambda: ("pk", self._api_read().pk),
            "query": lambda: ("pk", request_query("SELECT 1", 100, user=self._person).read.pk),
            "trial": lambda: ("pk", request_trial("SELECT 1 AS number", user=self._person).read.pk),
            "saved_query": lambda: ("key", save_query(owner=self._person, name="one", text="SELECT 1").key),
            "person_name": lambda: ("name", self._person.username),
            "chapter": lambda: ("name", "use/sources.md"),
            "system": lambda: ("short_name", self._warehouse.generated_from.system.short_name),
            "kind": lambda: ("kind", "files"),
            "schema": lambda: ("name", "rawcore"),
            "refresh": lambda: ("pk", self._refresh().pk),
            "environment": lambda: ("name", current_environment().name),
            "report_id": lambda: ("report_id", self._controlled().report.report_id),
            "schedule": lambda: ("key", self._schedule().key),
            "lease": lambda: ("pk", self._lease().pk),
            "change": lambda: ("pk", ChangeLogEntry.objects.latest("pk").pk),
            "saved_filter": lambda: (
                "key",
                save_filter(owner=self._person, route="dataset_list", name="raw", query="layer=raw").key,
            ),
            "favourite": lambda: (
                "pk",
                set_favourite(user=self._person, subject_kind="dataset", subject_key=self._warehouse.key).pk,
            ),
            "comment_kind": lambda: ("kind", "dataset"),
            "comment": lambda: ("key", CommentFactory(subject_key=self._warehouse.key, author=self._person).key),
            "notice": lambda: ("pk", NoticeFactory(user=self._person).pk),
            "webhook": lambda: ("key", WebhookFactory().key),
            "delivery": lambda: ("pk", DeliveryFactory(status="failed", finished_at=timezone.now()).pk),
            "maintenance_run": lambda: ("run_id", self._maintenance().run.run_id),
            "maintenance_record": lambda: ("record_id", self._maintenance().record_id),
            "dry_run": lambda: ("pk", DryRun.objects.create(preview=self._controlled()).pk),
            "execution": lambda: ("pk", self._record().execution_id),
            "record_id": lambda: ("record_id", self._record().record_id),
        }
        if value not in self._things:
            self._things[value] = known[value]()
        return self._things[value]

    def _proposal(self) -> SourceProposal:
        source = self._warehouse.generated_from
        columns = [ObservedColumn(column.name) for column in source.columns.all()]
        proposal = observe_schema(source=source, columns=[*columns, ObservedColumn("vip", parse("boolean"))])
        assert proposal is not None
        return proposal

    def _schedule(self) -> Schedule:
        return Schedule.objects.first() or create_schedule(name="nightly", cron="0 6 * * *")

    def _lease(self) -> Lease:
        holder = Holder("load run", "busy", 1)
        take_leases(environment=current_environment(), dataset_keys=[self._warehouse.key], holder=holder)
        return Lease.objects.get(dataset_key=self._warehouse.key)

    def _maintenance(self) -> MaintenanceRecord:
        run = LoadRun.objects.filter(kind=REVERT).first() or LoadRunFactory(kind=REVERT, status="succeeded")
        with transaction.atomic():
            return seal_end(run_pk=run.pk, attempt=1)

    def _refresh(self) -> Refresh:
        refresh = request_refresh(keys=(), purpose="drift").job
        refresh.requested_by = self._person
        refresh.save()
        return refresh

    def _api_read(self) -> ReadRequest:
        return ReadRequestFactory(kind="versions", dataset=self._warehouse, requested_by=self._person)

    def _copy(self) -> DatasetCopy:
        system = create_system(name="BI", short_name="bi", kind="duckdb", location="/data/bi.duckdb")
        return create_copy(dataset=self._warehouse, to=system)

    def _check(self) -> QualityCheck:
        known, arguments = self._warehouse.checks.first(), {"minimum": "1"}
        return known or create_check(dataset=self._warehouse, name="rows", kind="row_count", arguments=arguments)

    def _contract(self) -> TargetDataset:
        return TargetDataset.objects.filter(contract=True).first() or sales_mart()

    def _record(self) -> ExecutionRecord:
        return self._controlled().report.environment.records.get()
