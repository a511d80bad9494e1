"""A new reference between datasets, typed. Retiring one and bringing it back are verbs."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from metadata.domain.roles import Permission
from metadata.forms.references import ReferenceForm, referable
from metadata.models import Reference, TargetDataset
from metadata.permissions import permitted
from metadata.services.references import create_reference
from metadata.views.lookup import dataset_here, page_of

REFUSED = 422
# So many names are offered while one types; every other can be written.
_OFFERED = 500


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(Permission.CHANGE_METADATA)
def reference_create(request: HttpRequest, key: UUID) -> HttpResponse:
    """Let a dataset refer to another by its business key."""
    child = dataset_here(key)
    if child.history_of_id is not None:
        # What a history refers to is its base's to say.
        return redirect("reference_create", child.history_of.key)
    if request.method != "POST":
        return _page(request, child, ReferenceForm(initial={"parent": request.GET.get("parent", "")}, child=child))
    form = ReferenceForm(request.POST, child=child)
    made = form.attempt(lambda: _made(child, form))
    if made is None:
        return _page(request, child, form, status=REFUSED)
    messages.success(request, f"{child} refers to {made.parent} now.")
    return redirect(page_of(made))


@never_cache
@require_safe
@permitted(Permission.CHANGE_METADATA)
def reference_pairs(request: HttpRequest, key: UUID) -> HttpResponse:
    """The fields for the business key of the parent that was named: a part of the page."""
    child = dataset_here(key)
    form = ReferenceForm(initial={"parent": request.GET.get("parent", "")}, child=child)
    return render(request, "metadata/reference_pairs.html", {"form": form, "typed": request.GET.get("parent", "")})


def _made(child: TargetDataset, form: ReferenceForm) -> Reference:
    return create_reference(child=child, parent=form.named, pairs=form.pairs, role_name=form.cleaned_data["role_name"])


def _page(request: HttpRequest, child: TargetDataset, form: ReferenceForm, *, status: int = 200) -> HttpResponse:
    context = {
        "dataset": child,
        "form": form,
        "typed": form["parent"].value() or "",
        "parents": list(referable()[:_OFFERED]),
        "back": page_of(child),
    }
    return render(request, "metadata/reference_form.html", context, status=status)
