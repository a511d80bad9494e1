"""SQL page: editor, queries with their results, and saved queries."""

from typing import Any, ClassVar
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from elevata.accounts.roles import Permission
from elevata.accounts.view_permissions import permitted
from elevata.core.spreadsheets import csv_text
from elevata.lists.columns import Column, yes_no
from elevata.web.list_pages import ListPage
from elevata.web.requests import htmx_of, user_of
from elevata.web.views import ButtonPage
from loader.contract.refusals import Refusal
from loader.domain.queries.query_results import value_text
from loader.filtersets import SavedQueryFilter
from loader.forms.queries import LIMITS, QueryForm, SaveForm
from loader.models import ReadRequest, SavedQuery
from loader.selectors.reads import queries_of, saved_queries
from loader.services.reads.queries import (
    MOST_COMPLETIONS,
    delete_query,
    found_completions,
    has_published,
    must_run,
    must_still_see,
    readable_columns,
    readable_names,
    save_query,
    tree_of_schemas,
)
from loader.services.reads.read_requests import LAST_QUERIES, request_query, withdraw_read
from loader.services.reads.result_files import PARQUET, parquet_of
from loader.views.datasets.datasets import CSV, result_file
from loader.views.queries.statements import REFUSED, answered, seen, waiting
from metadata.domain.quality.check_kinds import QUERY
from metadata.domain.select_check import FUNCTIONS
from metadata.models import QualityCheck


@require_safe
@permitted(Permission.READ_DATA)
def sql_page(request: HttpRequest) -> HttpResponse:
    """Show the editor, empty, with a saved query or with the SELECT of a quality check."""
    saved, text = None, ""
    if (key := request.GET.get("saved", "")) and _is_uuid(key):
        saved = saved_queries(request.user).filter(key=key).first()
        text = saved.text if saved is not None else ""
    if (key := request.GET.get("check", "")) and _is_uuid(key):
        check = QualityCheck.objects.filter(key=key, kind=QUERY).first()
        text = check.arguments["sql"] if check is not None else text
    form = QueryForm(initial={"text": text, "limit": LIMITS[0][0]})
    return render(request, "loader/queries/sql_page.html", _page(request, form) | {"saved": saved})


def _page(request: HttpRequest, form: QueryForm) -> dict[str, Any]:
    last = queries_of(request.user).defer("answer").order_by("-pk")
    return {
        "form": form,
        "save_form": SaveForm(),
        "has_published": has_published(request.user),
        "tab": "editor",
        "last_queries": [(read, read.arguments["text"].strip()) for read in last[:LAST_QUERIES]],
    }


@require_safe
@permitted(Permission.READ_DATA)
def sql_completions(request: HttpRequest) -> JsonResponse:
    """Return completions of the editor: names and functions, or the columns of the tables ``name``."""
    if names := request.GET.getlist("name")[:MOST_COMPLETIONS]:
        return JsonResponse({"columns": readable_columns(request.user, names)})
    return JsonResponse({"names": readable_names(request.user), "functions": sorted(FUNCTIONS)})


@require_safe
@permitted(Permission.READ_DATA)
def sql_tree(request: HttpRequest) -> HttpResponse:
    """Return a part of the tree: schemas, tables of a schema, columns of a table, or what contains a text."""
    find, schema, table = (request.GET.get(name, "").strip() for name in ("find", "schema", "table"))
    context: dict[str, Any]
    if find:
        context = {"found": found_completions(request.user, find)}
    elif table:
        context = {"columns": readable_columns(request.user, [table]).get(table, [])}
    elif schema:
        context = {"tables": [(name, name.partition(".")[2]) for name in readable_names(request.user, schema)]}
    else:
        context = {"schemas": tree_of_schemas(request.user)}
    return render(request, "loader/queries/sql_tree.html", context)


def _is_uuid(text: str) -> bool:
    try:
        return bool(UUID(text))
    except ValueError:
        return False


@require_POST
@permitted(Permission.READ_DATA)
def sql_run(request: HttpRequest) -> HttpResponse:
    """Request a query; return the fragment that polls for its answer, or redirect to its page."""
    form = QueryForm(request.POST)
    if not form.is_valid():
        message = "; ".join(str(message) for errors in form.errors.values() for message in errors)
        return _part(request, form, REFUSED, {"error": {"message": message}})
    try:
        must_run(form.cleaned_data["text"], request.user)
        requested = request_query(form.cleaned_data["text"], form.cleaned_data["limit"], user=request.user)
    except Refusal as refusal:
        return _part(request, form, REFUSED, {"error": refusal.as_json()})
    if not htmx_of(request):
        return redirect("sql_answer", requested.read.pk)
    return _part(request, form, *_state_template(requested.read, notice=requested.reason))


def _own(request: HttpRequest, pk: int) -> ReadRequest:
    return get_object_or_404(queries_of(request.user), pk=pk)


@require_safe
@permitted(Permission.READ_DATA)
def sql_answer(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the answer of a query, or its state, to the user who requested it."""
    read = _own(request, pk)
    if not read.is_finished and request.GET.get("seen") == seen(read):
        return HttpResponse(status=204)
    form = QueryForm(initial=read.arguments)
    try:
        if read.answer:
            must_still_see(request.user, read)
    except Refusal as refusal:
        return _part(request, form, REFUSED, {"error": refusal.as_json()})
    return _part(request, form, *_state_template(read))


@require_POST
@permitted(Permission.READ_DATA)
def sql_cancel(request: HttpRequest, pk: int) -> HttpResponse:
    """Cancel a query; a finished query does not change."""
    read = _own(request, pk)
    withdraw_read(read=read)
    if not htmx_of(request):
        return redirect("sql_answer", pk)
    read.refresh_from_db()
    return _part(request, QueryForm(initial=read.arguments), *_state_template(read))


@require_safe
@permitted(Permission.READ_DATA)
def sql_file(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Return the rows of an answer as Parquet, or as CSV with values that spreadsheets do not read as formulas."""
    answered_queries = queries_of(request.user).filter(status=ReadRequest.Status.SUCCEEDED, answer__isnull=False)
    read = get_object_or_404(answered_queries, pk=pk)
    try:
        must_still_see(request.user, read)
    except Refusal as refusal:
        raise PermissionDenied(refusal.one_line()) from None
    answer = read.content
    if request.GET.get("format") == "parquet":
        return result_file(f"query-{read.pk}.parquet", parquet_of(answer), PARQUET, answer["masked"])
    text = csv_text(answer["columns"], ([value_text(value) for value in row] for row in answer["rows"]))
    return result_file(f"query-{read.pk}.csv", text, CSV, answer["masked"])


def _state_template(read: ReadRequest, notice: str = "") -> tuple[str, dict[str, Any]]:
    """Return the template for the state of a query, with its context."""
    if not read.is_finished:
        return waiting(read, "query", poll="sql_answer", cancel="sql_cancel", notice=notice)
    if read.status == ReadRequest.Status.FAILED:
        return REFUSED, {"read": read, "error": read.error}
    if read.answer is None:
        return "loader/queries/sql_removed.html", {"read": read}
    return "loader/queries/sql_answer.html", answered(read)


def _part(request: HttpRequest, form: QueryForm, template: str, context: dict[str, Any]) -> HttpResponse:
    """Render the fragment for htmx, or else the page with it."""
    if htmx_of(request):
        return render(request, template, context)
    return render(request, "loader/queries/sql_page.html", {**_page(request, form), **context, "part": template})


class SavedQueryList(ListPage):
    """List of the user's saved queries and of those that others share."""

    permissions, template_name = (Permission.READ_DATA,), "loader/queries/saved_query_list.html"
    filterset = SavedQueryFilter
    columns: ClassVar = (
        Column("Name", {"name": "name"}, sort="name"),
        Column("Query", {"query": "text"}),
        Column("Owner", {"owner": "owner"}, sort="owner"),
        Column("Shared", {"shared": lambda row: yes_no(row.shared)}, sort="shared", descends=True),
        Column("Changed", {"changed": "updated_at"}, sort="updated_at", descends=True),
    )
    file_name = "saved-queries"

    def listed(self) -> QuerySet[SavedQuery]:
        return saved_queries(self.request.user)

    def context(self) -> dict[str, Any]:
        return super().context() | {"tab": "saved"}


@require_POST
@permitted(Permission.READ_DATA)
def saved_query_save(request: HttpRequest) -> HttpResponse:
    """Save the text under a name; an own query of that name is replaced."""
    form = SaveForm(request.POST)
    saved = form.attempt(lambda: save_query(owner=request.user, **form.given()))
    if saved is None:
        errors = form.non_field_errors() or form.errors.get("name") or form.errors["text"]
        messages.error(request, f"The query was not saved. {errors[0]}")
        return redirect("sql_page")
    messages.success(request, f"Saved the query {saved.name}.")
    return redirect("saved_query_list")


class SavedQueryDelete(ButtonPage):
    """Button that deletes one of the user's own queries."""

    permissions = (Permission.READ_DATA,)

    def rows(self) -> QuerySet[SavedQuery]:
        return saved_queries(self.request.user).filter(owner=user_of(self.request))

    def act(self) -> str:
        delete_query(saved=self.row)
        messages.success(self.request, f"Deleted the query {self.row.name}.")
        return reverse("saved_query_list")
