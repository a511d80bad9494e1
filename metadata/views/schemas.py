"""Schemas of the warehouse: the list, and their forms."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from elevata.core.errors import StaleVersion
from metadata.domain.roles import Permission
from metadata.forms.datasets import NewSchemaForm, SchemaForm
from metadata.models import TargetSchema
from metadata.permissions import may, permitted
from metadata.selectors import schemas
from metadata.services.targets import create_schema, update_schema
from metadata.views.conflict import conflict, goes_on

REFUSED = 422


@require_safe
def schema_list(request: HttpRequest) -> HttpResponse:
    """Every schema, in the order of the layers."""
    context = {"schemas": list(schemas()), "may_edit": may(request.user, Permission.CHANGE_METADATA)}
    return render(request, "metadata/schema_list.html", context)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(Permission.CHANGE_METADATA)
def schema_create(request: HttpRequest) -> HttpResponse:
    """A new schema."""
    made, form = None, NewSchemaForm()
    if request.method == "POST":
        form = NewSchemaForm(request.POST)
        made = form.attempt(lambda: create_schema(**form.cleaned_data))
    if made is None:
        return _page(request, None, form, status=REFUSED if request.method == "POST" else 200)
    messages.success(request, f"Schema {made.name} is described.")
    return redirect("schema_list")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(Permission.CHANGE_METADATA)
def schema_edit(request: HttpRequest, name: str) -> HttpResponse:
    """Edit a schema."""
    schema = get_object_or_404(TargetSchema, name=name)
    if request.method != "POST":
        return _page(request, schema, SchemaForm.of(schema))
    form = SchemaForm(request.POST)
    if goes_on(request):
        return _page(request, schema, form)
    try:
        saved = form.attempt(lambda: update_schema(schema=schema, expected_version=form.over, **form.changes()))
    except StaleVersion:
        schema = TargetSchema.objects.get(pk=schema.pk)
        now, action = SchemaForm.of(schema), reverse("schema_edit", args=[schema.name])
        return conflict(request, form=form, now=now, row=schema, back=reverse("schema_list"), action=action)
    if saved is None:
        return _page(request, schema, form, status=REFUSED)
    messages.success(request, f"Schema {saved.name} is saved." if form.changes() else "Nothing was changed.")
    return redirect("schema_list")


def _page(
    request: HttpRequest, schema: TargetSchema | None, form: SchemaForm | NewSchemaForm, *, status: int = 200
) -> HttpResponse:
    context = {"schema": schema, "form": form, "back": reverse("schema_list")}
    return render(request, "metadata/schema_form.html", context, status=status)
