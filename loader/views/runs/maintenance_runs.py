"""Pages of maintenance runs, and downloads of their sealed records."""

from functools import cached_property
from typing import Any, ClassVar
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from architecture.domain.refusals import Refused
from architecture.views.report_files import json_file
from elevata.web.views import ActionPage, ButtonPage, DetailPage
from loader.contract.refusals import Refusal
from loader.contract.run_states import BRINGING
from loader.forms.maintenance import MaintenanceForm, PruneForm, RevertForm, VacuumForm
from loader.models import DatasetRun, LoadRun, MaintenanceRecord
from loader.selectors.loads import disk_use, kept_deliveries
from loader.services.maintenance.acceptances import request_accept
from loader.services.maintenance.prunes import archive_place, request_prune
from loader.services.maintenance.records import record_artifact
from loader.services.maintenance.reverts import request_revert, reversion
from loader.services.maintenance.vacuums import request_vacuum
from loader.services.reads.manifests import historized
from loader.services.reads.read_requests import CHECK, request_read
from loader.views.datasets.datasets import DataPage
from loader.views.runs.load_runs import ForStarters, RunPage, run_address
from metadata.models import TargetDataset
from metadata.views.base import DatasetPage


class RequestPage(ForStarters, ActionPage):
    """Base of pages that show the effect of a maintenance run and request it."""

    form_class = MaintenanceForm

    def request_run(self, form: Any) -> Any:
        """Call the service that requests the run."""
        raise NotImplementedError

    def act(self, form: Any) -> HttpResponse:
        return redirect(run_address(self.request, self.request_run(form)))


class RunRevert(RunPage, RequestPage):
    """Page to revert a load run on one of its histories."""

    form_class, template_name = RevertForm, "loader/maintenance/run_revert.html"

    @cached_property
    def histories(self) -> list[dict[str, Any]]:
        return _revertible(self.row)

    def options(self) -> dict[str, Any]:  # type: ignore[override]  # pages do not answer OPTIONS
        return {"datasets": [history["name"] for history in self.histories if not history["refusal"]]}

    def context(self) -> dict[str, Any]:
        return super().context() | {"rows": self.histories}

    def request_run(self, form: RevertForm) -> Any:
        return request_revert(of_run=self.row.run_id, user=self.request.user, **form.given())


def _revertible(run: LoadRun) -> list[dict[str, Any]]:
    """Return the datasets of the run that can be reverted, with its counts and the refusal of a revert, if any."""
    if run.kind not in BRINGING:
        return []
    rows = []
    for row in DatasetRun.objects.filter(run=run, sequence__isnull=False).order_by("ordinal", "pk"):
        refusal: Refusal | Refused | None
        try:
            refusal = reversion(run.run_id, row.qualified_name).refusal
        except (Refusal, Refused) as error:
            if error.code == "NO_HISTORY":
                continue
            refusal = error
        rows.append({"name": row.qualified_name, "counts": row.counts, "refusal": refusal})
    return rows


class MaintainedPage(DatasetPage):
    """Base of pages about the maintenance of a dataset; of a history, of its base. ``view`` is the tab."""

    view: ClassVar[str]

    @property
    def described(self) -> TargetDataset:
        return self.row.history_of or self.row

    def context(self) -> dict[str, Any]:
        return super().context() | {"described": self.described, "view": self.view}


class HistoryRequestPage(MaintainedPage, RequestPage):
    """Base of pages that request a maintenance run of one dataset."""


class DatasetPrune(HistoryRequestPage):
    """Page to prune closed versions of a history."""

    form_class, template_name, view = PruneForm, "loader/maintenance/history_prune.html", "prune"

    def request_run(self, form: PruneForm) -> Any:
        name, arguments = str(self.described), form.given()
        archive = archive_place(name) if arguments.pop("archive") else None
        return request_prune(dataset=name, archive=archive, user=self.request.user, **arguments)


class DatasetStorage(MaintainedPage, DetailPage):
    """Page of the disk use of the dataset's tables, from the newest vacuum."""

    template_name, view = "loader/maintenance/dataset_storage.html", "storage"

    def context(self) -> dict[str, Any]:
        row = disk_use(self.described.key)
        tables = row.run.details.get("tables", {}) if row else {}
        return super().context() | {"row": row, "tables": tables, "deliveries": kept_deliveries(row)}


class DatasetVacuum(HistoryRequestPage):
    """Page to remove or list the former files of a dataset's tables."""

    form_class, template_name, view = VacuumForm, "loader/maintenance/table_vacuum.html", "storage"

    def request_run(self, form: VacuumForm) -> Any:
        return request_vacuum(dataset=str(self.described), user=self.request.user, **form.given())


class DatasetAccept(HistoryRequestPage):
    """Page to accept a restored or replaced table."""

    template_name, view = "loader/maintenance/table_accept.html", "accept"

    def request_run(self, form: MaintenanceForm) -> Any:
        return request_accept(dataset=str(self.described), user=self.request.user, **form.given())


class DatasetCheck(DataPage, DetailPage, ButtonPage):
    """Page that requests a check of a history; the read's page shows the findings."""

    template_name, view, page = "loader/queries/history_check.html", "check", "dataset_check"

    def act(self) -> str:
        (checked,) = historized([str(self.row.history_of or self.row)])
        return reverse("read_part", args=[request_read(kind=CHECK, dataset=checked, user=self.request.user).read.pk])


@require_safe
def run_record(request: HttpRequest, run_id: str, record_id: UUID) -> HttpResponse:
    """Return a sealed record as a file for ``verify_artifact``."""
    record = get_object_or_404(MaintenanceRecord, run__run_id=run_id, record_id=record_id)
    return json_file(record_artifact(record), f"record-{record.record_id}.json")
