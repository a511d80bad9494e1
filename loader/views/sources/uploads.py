"""Uploads of files: a new one for a system, and the next delivery of a source with the load that reads it."""

from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from elevata.accounts.permissions import may
from elevata.accounts.roles import Permission
from elevata.web.forms import error_text
from elevata.web.views import REFUSED, ButtonPage, DetailPage
from loader.contract.refusals import Refusal
from loader.selectors.source_state import loaded_dataset, uploads
from loader.services.loads.load_runs import request_load_run
from loader.services.sources.uploads import store_delivery, store_upload, takes_uploads, uploaded_file
from loader.views.runs.load_runs import run_address
from loader.views.sources.several_files import files_address, only_first
from loader.views.sources.source_steps import step_address
from loader.views.sources.systems import SystemDiscover
from metadata.domain.scope import DATASET, Scope
from metadata.domain.sources.option_kinds import FAULTY_ROWS, QUARANTINE
from metadata.models import SourceDataset
from metadata.permissions import here
from metadata.selectors.change_log import shown_entries
from metadata.selectors.datasets import source_dataset_detail
from metadata.services.sources import update_source_dataset
from metadata.views.base import SourceDatasetPage, SourceEditing

UPLOADS = 10


class SystemUpload(SystemDiscover):
    """Store files in the folder of a system, and go on with their columns."""

    @classmethod
    def most_bytes(cls) -> int:
        return settings.BATCH_MAX_BYTES

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        return redirect("system_discover", self.row.short_name)

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        """Store the files; one that is refused does not stop the others."""
        files = request.FILES.getlist("file")
        if not files:
            return self.render(status=REFUSED, search="", upload_refused={"message": "Choose a file first."})
        stored: list[str] = []
        refusals: list[Refusal] = []
        for file in files:
            try:
                stored.append(store_upload(system=self.row, name=file.name or "", chunks=file.chunks()))
            except Refusal as refusal:
                refusals.append(refusal)
        if not stored:
            first, *others = [refused.as_json() for refused in refusals]
            return self.render(status=REFUSED, search="", upload_refused=first, others_refused=others)
        for refused in refusals:
            messages.error(request, error_text(refused, refused.message))
        messages.success(request, f"{', '.join(stored)} {'are' if len(stored) > 1 else 'is'} stored.")
        if len(stored) == 1:
            return redirect(step_address("source_import", self.row, stored[0]))
        address, number = files_address(self.row, stored)
        if number < len(stored):
            messages.warning(request, only_first(number))
        return redirect(address)


class SourceUpload(SourceEditing, DetailPage):
    """Form that uploads the next delivery of a source, and the stored file compared with the contract."""

    name, template_name = "source", "loader/sources/source_upload.html"
    rows = staticmethod(source_dataset_detail)

    @classmethod
    def most_bytes(cls) -> int:
        return settings.BATCH_MAX_BYTES

    def find(self) -> SourceDataset:
        source = super().find()
        if not takes_uploads(source):
            raise Http404
        return source

    def context(self) -> dict[str, Any]:
        return super().context() | {
            "dataset": loaded_dataset(self.row),
            "may_start": may(self.request.user, Permission.START_LOAD, on=here),
            "uploads": shown_entries(uploads(self.row)[:UPLOADS]),
        }

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        if not (name := request.GET.get("file", "")[:1000]):
            return self.render()
        try:
            return self.render(file=uploaded_file(self.row, name))
        except Refusal as refusal:
            return self.render(refused=refusal.as_json())

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        sent = request.FILES.get("file")
        if sent is None:
            return self.render(status=REFUSED, refused={"message": "Choose a file first."})
        try:
            file = store_delivery(
                source=self.row, name=sent.name or "", chunks=sent.chunks(), as_it_is="as_it_is" in request.POST
            )
        except Refusal as refusal:
            return self.render(status=REFUSED, refused=refusal.as_json(), may_insist=True)
        messages.success(request, f"{file.location} is stored.")
        return redirect(f"{reverse('source_upload', args=[self.row.key])}?{urlencode({'file': sent.name})}")


class SourceLoadRest(SourceEditing, SourceDatasetPage, ButtonPage):
    """Button that quarantines rows that do not fit, from now on, and loads the others of a refused delivery."""

    rows = staticmethod(source_dataset_detail)

    def act(self) -> str | None:
        options = self.row.options | {FAULTY_ROWS: QUARANTINE}
        update_source_dataset(source_dataset=self.row, expected_version=self.row.version, options=options)
        messages.success(self.request, f"Rows of {self.row} that do not fit are quarantined from now on.")
        dataset = loaded_dataset(self.row)
        if dataset is None or not may(self.request.user, Permission.START_LOAD, on=here):
            return None
        requested = request_load_run(scope=Scope(DATASET, str(dataset)), user=self.request.user)
        return run_address(self.request, requested)


class SourceLoad(SourceDatasetPage, ButtonPage):
    """Button that loads a source into its last table; it leads to the progress and the first rows."""

    permissions, place = (Permission.START_LOAD,), here
    rows = staticmethod(source_dataset_detail)

    def act(self) -> str:
        dataset = loaded_dataset(self.row)
        if dataset is None:
            raise Refusal("NO_TARGETS", f"{self.row} has no targets yet", hint="Generate them first.")
        requested = request_load_run(scope=Scope(DATASET, str(dataset)), user=self.request.user)
        if requested.notice:
            messages.warning(self.request, f"Load run {requested.notice}.")
        return reverse("source_first_load", args=[self.row.key, requested.run.run_id])
