"""Systems: registration, connection test, and the files or tables of one."""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from elevata.core.errors import StaleVersion
from loader.domain.runs.refusals import Refusal
from loader.sources.permitted_places import allowed, place_in
from loader.sources.results import Found, Listing
from loader.sources.systems import discover, reach
from metadata.domain.roles import Permission
from metadata.forms.base import MetadataForm
from metadata.forms.sources import NewSystemForm, SystemForm
from metadata.models import SourceDataset, System
from metadata.permissions import may, permitted
from metadata.selectors import source_datasets
from metadata.services.sources import create_system, update_system
from metadata.views.conflict import conflict, goes_on
from metadata.views.paging import one_page

REFUSED = 422
PER_PAGE = 50
# Beyond so many pages a search is of more use.
MOST_PAGES = 1_000


# --- registering -------------------------------------------------------------------------------


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(Permission.CHANGE_METADATA)
def system_create(request: HttpRequest) -> HttpResponse:
    """Register a system."""
    made, form = None, NewSystemForm()
    if request.method == "POST":
        form = NewSystemForm(request.POST)
        if _place_is_allowed(form, None):
            made = form.attempt(lambda: create_system(**form.cleaned_data))
    if made is None:
        return _form_page(request, None, form, status=REFUSED if request.method == "POST" else 200)
    messages.success(request, f"{made.name} is registered. Test whether it can be reached, then look what it has.")
    return redirect("system_page", made.short_name)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(Permission.CHANGE_METADATA)
def system_edit(request: HttpRequest, short_name: str) -> HttpResponse:
    """Edit a system's names and location."""
    system = get_object_or_404(System, short_name=short_name)
    if request.method != "POST":
        return _form_page(request, system, SystemForm.of(system))
    form = SystemForm(request.POST)
    if goes_on(request):
        return _form_page(request, system, form)
    if not _place_is_allowed(form, system):
        return _form_page(request, system, form, status=REFUSED)
    try:
        saved = form.attempt(lambda: update_system(system=system, expected_version=form.over, **form.changes()))
    except StaleVersion:
        system = System.objects.get(pk=system.pk)
        action, back = (reverse(name, args=[system.short_name]) for name in ("system_edit", "system_page"))
        return conflict(request, form=form, now=SystemForm.of(system), row=system, back=back, action=action)
    if saved is None:
        return _form_page(request, system, form, status=REFUSED)
    messages.success(request, f"{saved.name} is saved." if form.changes() else "Nothing was changed.")
    return redirect("system_page", saved.short_name)


def _place_is_allowed(form: MetadataForm, system: System | None) -> bool:
    """Return whether a new folder may be read: a load would read whatever is there.

    A location that came by YAML stays, if other fields of the system are edited.
    """
    if not form.is_valid():
        return True  # ``attempt`` reports the error
    given = form.cleaned_data
    moved = system is None or (given["kind"], given["location"]) != (system.kind, system.location)
    if not moved or given["kind"] != System.Kind.FILES or not given["location"]:
        return True
    try:
        allowed(given["location"])
        if system is not None:
            placed = System(kind=given["kind"], location=given["location"])
            for source in system.datasets.all():
                place_in(placed, source.location)
    except Refusal as refusal:
        form.add_error("location", f"{refusal.message[:1].upper()}{refusal.message[1:]}. {refusal.hint}")
        return False
    return True


def _form_page(request: HttpRequest, system: System | None, form: MetadataForm, *, status: int = 200) -> HttpResponse:
    back = reverse("system_page", args=[system.short_name]) if system else reverse("source_list")
    return render(request, "loader/system_form.html", {"system": system, "form": form, "back": back}, status=status)


# --- showing -----------------------------------------------------------------------------------


@require_safe
def system_page(request: HttpRequest, short_name: str) -> HttpResponse:
    """Show a system, and its source datasets that are described."""
    system = get_object_or_404(System, short_name=short_name)
    return render(request, "loader/system_page.html", _about(request, system))


def _about(request: HttpRequest, system: System) -> dict[str, Any]:
    return {
        "system": system,
        "page": one_page(request, source_datasets().filter(system=system), PER_PAGE),
        "may_edit": may(request.user, Permission.CHANGE_METADATA),
        "is_database": system.kind != System.Kind.FILES,
    }


@never_cache
@require_POST
@permitted(Permission.CHANGE_METADATA)
def system_test(request: HttpRequest, short_name: str) -> HttpResponse:
    """Test whether the system can be reached, and show the result."""
    system = get_object_or_404(System, short_name=short_name)
    try:
        answer: dict[str, Any] = {"reached": reach(system)}
    except Refusal as refusal:
        answer = {"refused": refusal.as_json()}
    if request.htmx:
        return render(request, "loader/system_answer.html", {"system": system, **answer})
    return render(request, "loader/system_page.html", _about(request, system) | answer)


@dataclass(frozen=True)
class ShownFound:
    """A listed file or table, and the source dataset that describes it, if one does."""

    found: Found
    source: SourceDataset | None


@never_cache
@require_safe
@permitted(Permission.CHANGE_METADATA)
def system_discover(request: HttpRequest, short_name: str) -> HttpResponse:
    """List a system's files or tables. The page comes at once, the listing follows."""
    system = get_object_or_404(System, short_name=short_name)
    search, number = request.GET.get("q", "")[:200], _page_number(request)
    context = {"system": system, "search": search, "is_database": system.kind != System.Kind.FILES}
    if request.htmx or "show" in request.GET:
        context |= _found(system, search, number)
    template = "loader/found_rows.html" if request.htmx else "loader/system_discover.html"
    return render(request, template, context)


def _page_number(request: HttpRequest) -> int:
    text = request.GET.get("page", "1")
    return min(max(int(text), 1), MOST_PAGES) if text.isascii() and text.isdigit() and len(text) < 8 else 1


def _found(system: System, search: str, number: int) -> dict[str, Any]:
    start = (number - 1) * PER_PAGE
    try:
        listing = discover(system, search=search, start=start, count=PER_PAGE)
    except Refusal as refusal:
        return {"refused": refusal.as_json(), "looked": True}
    return {
        "looked": True,
        "listing": listing,
        "rows": _described(system, listing),
        "first": start + 1,
        "last": start + len(listing.items),
        "before": number - 1,
        "after": number + 1 if start + len(listing.items) < listing.total else 0,
    }


def _described(system: System, listing: Listing) -> list[ShownFound]:
    known = {source.location: source for source in system.datasets.select_related("system")}
    return [ShownFound(one, known.get(one.location)) for one in listing.items]
