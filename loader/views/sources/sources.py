"""Edit page of a source dataset: its names, its location and its reading options."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from elevata.core.errors import StaleVersion, as_sentence
from loader.domain.runs.refusals import Refusal
from loader.sources.permitted_places import place_in
from metadata.domain.roles import Permission
from metadata.forms.sources import SourceForm
from metadata.models import SourceDataset, System
from metadata.permissions import permitted
from metadata.services.sources import update_source_dataset
from metadata.views.conflict import conflict, goes_on

REFUSED = 422


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(Permission.CHANGE_METADATA)
def source_edit(request: HttpRequest, key: UUID) -> HttpResponse:
    """Edit a source dataset, except its columns and its policy."""
    source = _here(key)
    if request.method != "POST":
        return _page(request, source, SourceForm.of(source, system=source.system))
    form = SourceForm(request.POST, system=source.system)
    if goes_on(request):
        return _page(request, source, form)
    if not _place_is_allowed(form, source):
        return _page(request, source, form, status=REFUSED)
    try:
        saved = form.attempt(
            lambda: update_source_dataset(source_dataset=source, expected_version=form.over, **form.changes())
        )
    except StaleVersion:
        source = _here(key)
        now, back = SourceForm.of(source, system=source.system), reverse("source_page", args=[key])
        return conflict(request, form=form, now=now, row=source, back=back)
    if saved is None:
        return _page(request, source, form, status=REFUSED)
    said = "The contract is saved. Its targets follow when they are generated again."
    messages.success(request, said if form.changes() else "Nothing was changed.")
    return redirect("source_page", key)


def _here(key: UUID) -> SourceDataset:
    return get_object_or_404(SourceDataset.objects.select_related("system"), key=key)


def _place_is_allowed(form: SourceForm, source: SourceDataset) -> bool:
    """Return whether a new location may be read: a load would read whatever is there.

    A location that came by YAML stays, if other fields of the source are edited.
    """
    if not form.is_valid() or source.system.kind != System.Kind.FILES:
        return True  # ``attempt`` reports the error
    if form.cleaned_data["location"] == source.location:
        return True
    try:
        place_in(source.system, form.cleaned_data["location"])
    except Refusal as refusal:
        form.add_error("location", f"{as_sentence(refusal.message)} {refusal.hint}".strip())
        return False
    return True


def _page(request: HttpRequest, source: SourceDataset, form: SourceForm, *, status: int = 200) -> HttpResponse:
    context = {
        "source": source,
        "facts": [form[name] for name in SourceForm.FACTS],
        "options": [form[name] for name in SourceForm.OPTIONS],
        "form": form,
        "generated": source.generated.filter(active=True).select_related("schema"),
        "back": reverse("source_page", args=[source.key]),
    }
    return render(request, "loader/source_form.html", context, status=status)
