"""Pages of systems, and forms of systems and source datasets."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from elevata.accounts.permissions import may
from elevata.accounts.roles import Permission
from elevata.core.errors import MetadataError
from elevata.web.list_pages import ListPage
from elevata.web.paging import one_page
from elevata.web.requests import htmx_of
from elevata.web.views import EditPage, Page, RowPage
from loader.contract.refusals import Refusal
from loader.selectors.copies import copies_in, lines_of
from loader.sources.page_limits import must_be_allowed, source_places
from loader.sources.results import ListedItem, Listing
from loader.sources.systems import delivery, discover, reach
from loader.views.sources.source_steps import steps_of
from metadata.domain.copies import KINDS
from metadata.domain.sources.formats import FORMATS_OF_KIND
from metadata.forms.sources import SourceForm
from metadata.forms.systems import SystemForm
from metadata.models import SourceDataset, System
from metadata.selectors.datasets import source_datasets
from metadata.services.datasets.generation_preview import preview_generation
from metadata.services.sources import update_source_dataset, update_system
from metadata.views.base import SourceDatasetPage, SourceEditing
from metadata.views.sources import SourceList

PER_PAGE = 50
# A search is of more use than further pages.
MAX_PAGES = 1_000


_ITEMS = {
    System.Kind.FILES: "file",
    System.Kind.JDBC: "table",
    System.Kind.KAFKA: "topic",
    System.Kind.REST: "endpoint",
    System.Kind.DUCKDB: "table",
    System.Kind.DELTA: "table",
}
# Columns of the list of all sources that the page of a system has.
_COLUMNS = ("Source dataset", "Format", "Location", "Columns", "Description")


class SystemPage(RowPage):
    """Base of pages about one system."""

    model, name, by, page = System, "system", "short_name", "system_page"

    def context(self) -> dict[str, Any]:
        return super().context() | {"item": _ITEMS[self.row.kind]}


class SourcesPage(SourceEditing, SystemPage):
    """Base of pages about the sources of a system of a kind that has some."""

    def rows(self) -> QuerySet[System]:
        return System.objects.filter(kind__in=[kind for kind, formats in FORMATS_OF_KIND.items() if formats])


class SystemEdit(SourceEditing, SystemPage, EditPage):
    """Edit a system. A new location must be allowed; one that came by YAML stays if other fields are edited."""

    form_class, service = SystemForm, staticmethod(update_system)
    template_name, message = "loader/sources/system_form.html", "{row.name} is saved."

    def save(self, form: SystemForm) -> System:
        system = System(kind=form.cleaned_data["kind"], location=form.cleaned_data["location"])
        if system.location and (system.kind, system.location) != (self.row.kind, self.row.location):
            must_be_allowed(system, source_places(*self.row.datasets.values("location", "intake")))
        return super().save(form)


class SystemDetail(SystemPage, ListPage):
    """A system, its source datasets, and the copies of datasets in it."""

    template_name, file_name = "loader/sources/system_page.html", "system_sources"
    columns: ClassVar = tuple(replace(column, sort="") for column in SourceList.columns if column.label in _COLUMNS)

    def listed(self) -> QuerySet[SourceDataset]:
        return source_datasets().filter(system=self.row)

    def context(self) -> dict[str, Any]:
        copies = one_page(self.request, copies_in(self.row) if self.row.kind in KINDS else (), PER_PAGE)
        return super().context() | {
            "has_sources": bool(FORMATS_OF_KIND[self.row.kind]),
            "copies": copies,
            "copy_lines": lines_of(copies),
            "may_edit": may(self.request.user, Permission.CHANGE_METADATA),
        }


class SystemTest(SourceEditing, SystemDetail):
    """Test whether the system can be reached, and show the result."""

    http_method_names = ["post"]
    part_template = "loader/sources/system_answer.html"

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        try:
            result: dict[str, Any] = {"reached": reach(self.row)}
        except Refusal as refusal:
            result = {"refused": refusal.as_json()}
        return self.render(**result)


@dataclass(frozen=True)
class DescribedItem:
    """A listed file or table, and the source dataset that describes it, if one does."""

    found: ListedItem
    source: SourceDataset | None


class SystemDiscover(SourcesPage, Page):
    """The files or tables of a system. The page comes at once, the listing follows."""

    template_name, part_template = "loader/sources/system_discover.html", "loader/sources/found_rows.html"

    def context(self) -> dict[str, Any]:
        return super().context() | {"steps": steps_of("Contents", self.row)}

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        search, number = request.GET.get("q", "")[:200], _page_number(request)
        is_listed = htmx_of(request) or "show" in request.GET
        listing = _listing(self.row, search, number) if is_listed else {}
        return self.render(search=search, **listing)


class SystemDelivery(SourcesPage):
    """Files that a typed location stands for, with their format; the part below the field of the location."""

    template_name = "loader/add_source/delivery_part.html"

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        location = request.GET.get("location", "").strip()[:1000]
        if not htmx_of(request):
            return redirect("system_discover", self.row.short_name)
        context: dict[str, Any] = {"location": location}
        if location:
            try:
                context["delivery"] = delivery(self.row, location)
            except Refusal as refusal:
                context["refused"] = refusal.as_json()
        return self.render(**context)


def _page_number(request: HttpRequest) -> int:
    text = request.GET.get("page", "1")
    return min(max(int(text), 1), MAX_PAGES) if text.isascii() and text.isdigit() and len(text) < 8 else 1


def _listing(system: System, search: str, number: int) -> dict[str, Any]:
    start = (number - 1) * PER_PAGE
    try:
        listing = discover(system, search=search, start=start, count=PER_PAGE)
    except Refusal as refusal:
        return {"refused": refusal.as_json(), "looked": True}
    return {
        "looked": True,
        "listing": listing,
        "rows": _items(system, listing),
        "first": start + 1,
        "last": start + len(listing.items),
        "before": number - 1,
        "after": number + 1 if start + len(listing.items) < listing.total else 0,
    }


def _items(system: System, listing: Listing) -> list[DescribedItem]:
    known = {source.location: source for source in system.datasets.select_related("system")}
    return [DescribedItem(item, known.get(item.location)) for item in listing.items]


def _needs_generation(source: SourceDataset) -> bool:
    """Return True if the targets of a source would change with their generation."""
    try:
        preview = preview_generation(source)
    except MetadataError:
        return True
    return preview.changes or preview.differs


class SourceEdit(SourceEditing, SourceDatasetPage, EditPage):
    """Edit a source dataset, except its columns and its history policy.

    A new location must be allowed; one that came by YAML stays if other fields are edited.
    """

    form_class, service = SourceForm, staticmethod(update_source_dataset)
    keyword = "source_dataset"
    template_name = "loader/sources/source_form.html"
    message = "Contract saved. Generate targets to update them."

    def options(self) -> dict[str, Any]:  # type: ignore[override]  # pages do not answer OPTIONS
        return {"system": self.row.system}

    def save(self, form: SourceForm) -> SourceDataset:
        places = {form.cleaned_data["location"], form.cleaned_data["key_list"]} - {""}
        if changed := places - source_places(vars(self.row)):
            must_be_allowed(self.row.system, sorted(changed))
        return super().save(form)

    def after_save(self, form: SourceForm, row: SourceDataset) -> HttpResponse:
        if form.changes() and not _needs_generation(row):
            self.add_message("Contract saved.")
            return redirect(self.address(row))
        return super().after_save(form, row)

    def show(self, form: SourceForm, *, status: int = 200) -> HttpResponse:
        return self.render(
            form=form,
            status=status,
            facts=[form[name] for name in SourceForm.FACTS],
            options=[form[name] for name in form.shown_options],
            intake=[form[name] for name in form.shown_intake],
            generated=self.row.generated.filter(active=True).select_related("schema"),
        )
