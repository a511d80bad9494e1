"""Pages of sources, and target generation."""

from collections.abc import Sequence
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from elevata.accounts.permissions import may
from elevata.accounts.roles import Permission
from elevata.core.errors import MetadataError, as_sentence
from elevata.lists.columns import Column, yes_no
from elevata.web.list_pages import ListPage
from elevata.web.views import REFUSED, RowPage
from metadata.domain.bulk_edits import SOURCE_ACTIONS
from metadata.filtersets import SourceDatasetFilter
from metadata.models import System
from metadata.selectors.datasets import source_datasets, systems
from metadata.services.datasets.generation_preview import (
    DatasetPreview,
    generate_accepted,
    generate_system,
    preview_generation,
    preview_system,
)
from metadata.views.base import TABLES_CHANGE, Editing, SourceDatasetPage, keys_of

STALE = 409


class SourceList(ListPage):
    """Source datasets by system."""

    filterset, template_name = SourceDatasetFilter, "metadata/source_list.html"
    listed = staticmethod(source_datasets)
    columns: ClassVar = (
        Column("Source dataset", {"source dataset": str, "system": "system.short_name"}, sort="name"),
        Column("Format", {"format": "format"}, sort="format"),
        Column("Location", {"location": "location"}, sort="location"),
        Column("Columns", {"columns": "column_count"}, sort="columns", descends=True, kind="num"),
        Column("Historized", {"historized": lambda row: yes_no(row.historize)}, sort="historize", descends=True),
        Column("Description", {"description": "description"}, sort="description"),
        Column("Owner", {"owner": "owner"}, shown=False, sort="owner"),
        Column("Tags", {"tags": lambda row: ", ".join(row.tags)}, shown=False),
        Column("Active", {"active": lambda row: yes_no(row.active)}, shown=False, sort="active", descends=True),
    )

    def context(self) -> dict[str, Any]:
        rows = list(systems().order_by("short_name"))
        may_edit = may(self.request.user, Permission.CHANGE_METADATA)
        return super().context() | {
            "systems": rows,
            "system_names": [system.short_name for system in rows],
            "may_edit": may_edit,
            "actions": {"edits": SOURCE_ACTIONS} if may_edit else {},
        }


class SourceGenerate(Editing, SourceDatasetPage):
    """Preview the generation of a source's targets, and generate exactly what was previewed."""

    template_name = "metadata/source_generate.html"

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        return self.show(set())

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        accept = set(keys_of(request.POST.getlist("accept")))
        fingerprint = request.POST.get("fingerprint", "")
        try:
            preview = generate_accepted(source_dataset=self.row, fingerprint=fingerprint, accept=accept)
        except MetadataError as error:
            status = STALE if error.code == "preview_changed" else REFUSED
            return self.show(accept, error=as_sentence(error.one_line()), status=status)
        messages.success(request, _summary(preview.datasets, accept))
        return redirect("source_page", self.row.key)

    def show(self, accept: set[UUID], *, error: str = "", status: int = 200) -> HttpResponse:
        """Show the preview, or the reason why nothing can be generated."""
        context: dict[str, Any] = {"accept": accept, "error": error, "stale": status == STALE}
        try:
            context["preview"] = preview_generation(self.row)
        except MetadataError as problem:
            context |= {"refused": as_sentence(problem.one_line()), "code": problem.code}
        return self.render(status=status, **context)


class SystemGenerate(Editing, RowPage):
    """Preview the generation of all targets of a system, and generate exactly what was previewed."""

    model, name, by, template_name = System, "system", "short_name", "metadata/system_generate.html"

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        return self.show(set())

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        accept = set(keys_of(request.POST.getlist("accept")))
        sent = (text.partition(":")[::2] for text in request.POST.getlist("fingerprint"))
        fingerprints = {key: fingerprint for text, fingerprint in sent for key in keys_of([text])}
        try:
            generations = generate_system(system=self.row, fingerprints=fingerprints, accept=accept)
        except MetadataError as error:
            status = STALE if error.code == "preview_changed" else REFUSED
            return self.show(accept, error=as_sentence(error.one_line()), status=status)
        datasets = [dataset for generation in generations for dataset in generation.datasets]
        messages.success(request, _summary(datasets, accept))
        return redirect("system_page", self.row.short_name)

    def show(self, accept: set[UUID], *, error: str = "", status: int = 200) -> HttpResponse:
        """Show the preview by source."""
        generations = preview_system(self.row)
        return self.render(
            status=status,
            accept=accept,
            error=error,
            stale=status == STALE,
            generations=generations,
            changing=[generation for generation in generations if generation.anything],
            left_out=[generation for generation in generations if generation.problem is not None],
        )


def _summary(datasets: Sequence[DatasetPreview], accept: set[UUID]) -> str:
    counts = [
        (sum(dataset.status == "new" for dataset in datasets), "new"),
        (sum(dataset.status in ("changes", "returns", "retires") for dataset in datasets), "changed"),
        (sum(dataset.key in accept and bool(dataset.differences) for dataset in datasets), "set to the source"),
    ]
    summary = ", ".join(f"{count} {label}" for count, label in counts if count)
    if not summary:
        return "Everything was generated already: nothing was changed."
    return f"Generated: {summary}. {TABLES_CHANGE}"
