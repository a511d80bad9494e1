"""Pages of load runs, and of a load of selected datasets."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar

from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from architecture.selectors.dataset_states import described_states
from architecture.services.environments import current_environment
from elevata.accounts.permissions import may
from elevata.accounts.roles import Permission
from elevata.lists.columns import Column
from elevata.web.list_pages import ListPage
from elevata.web.views import ActionPage, ButtonPage, Page, RowPage
from loader.domain.dependencies import LOADED_LAYERS, come_by_files, is_loaded, is_view_model
from loader.filtersets import LoadRunFilter
from loader.forms.load_runs import NoteForm, StartLoadForm
from loader.models import LoadRun
from loader.selectors.charts import run_charts
from loader.selectors.runs import RunTotals, load_runs, newest_runs, with_totals
from loader.services.loads.load_runs import request_cancel, request_load_run
from loader.services.maintenance.approvals import approve_maintenance, is_unapproved
from loader.views.runs.run_status import RunState, live_part, request_details
from metadata.domain.scope import Scope
from metadata.domain.selection import MAX_WORDS
from metadata.domain.state import DatasetState
from metadata.models import TargetDataset
from metadata.permissions import here
from metadata.selectors.datasets import target_datasets
from metadata.views.bulk_edits import SelectedDatasets, SelectedRow

START = Permission.START_LOAD
SUGGESTED = 500


def loadable_names() -> QuerySet:
    """Return the names of loadable datasets, as suggestions in a form."""
    names = target_datasets().filter(active=True, history_of__isnull=True, materialization="table")
    names = names.filter(Q(schema__layer__in=LOADED_LAYERS) | ~Q(select=""))
    return names.order_by("schema__name", "name").values_list("schema__name", "name")[:SUGGESTED]


class ForStarters(Page):
    """Base of pages that need the permission to start loads in this environment."""

    permissions, place = (START,), here


def _change(name: str) -> Callable[[RunTotals], int | None]:
    return lambda total: total.changes.get(name)


class RunList(ListPage):
    """List of load runs, newest first, with the form that starts one."""

    filterset, per_page, template_name = LoadRunFilter, 25, "loader/runs/run_list.html"
    list_route = "run_list"
    columns: ClassVar = (
        Column(
            "Run",
            {
                "run": "run.run_id",
                "kind": "run.kind",
                "requested": "run.requested_at",
                "by": "run.who",
                "reason": "run.reason",
            },
            sort="run_id",
        ),
        Column("State", {"state": "run.status"}, sort="status"),
        Column("Scope", {"scope": lambda total: Scope.from_json(total.run.scope)}, sort="scope"),
        Column("As of (UTC)", {"as of": "run.load_timestamp"}, sort="load_timestamp", descends=True),
        Column("Datasets", {"datasets": "run.dataset_count", "failed": "run.failed_count"}),
        Column("Rows", {"rows": "rows"}, kind="num"),
        *(Column(name.title(), {name: _change(name)}, kind="num") for name in ("new", "changed", "deleted")),
        Column("Took", {"seconds": "run.seconds"}, sort="took", descends=True, kind="num"),
    )

    def detailed(self, rows: Sequence[Any]) -> list[RunTotals]:
        return with_totals(rows)

    def listed(self) -> QuerySet[LoadRun]:
        return load_runs()

    @cached_property
    def form(self) -> StartLoadForm:
        dataset = self.request.GET.get("start", "")
        return StartLoadForm(initial={"scope": "dataset", "dataset": dataset} if dataset else None)

    def context(self) -> dict[str, Any]:
        runs = self.rows_page.object_list
        return super().context() | {
            "rows": [(total, Scope.from_json(total.run.scope)) for total in self.detailed_page],
            "live": any(not run.is_finished for run in runs),
            "form": self.form,
            "form_opened": self.form.is_bound or "start" in self.request.GET,
            "may_start": may(self.request.user, START, on=here),
            "dataset_names": loadable_names(),
        }


class RunCharts(ListPage):
    """Charts of the load runs that the filters select, the newest first by page."""

    filterset, per_page, template_name = LoadRunFilter, 60, "loader/runs/run_charts.html"

    def listed(self) -> QuerySet[LoadRun]:
        return newest_runs()

    def context(self) -> dict[str, Any]:
        return super().context() | {
            "charts": run_charts(with_totals(self.rows_page.object_list)),
            "dataset_names": loadable_names(),
        }


class RunStart(ForStarters, RunList):
    """View that requests a load run; errors are shown in the form on the list."""

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        return redirect(f"{reverse('run_list')}?start=#start")

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        self.form = form = StartLoadForm(request.POST)
        requested = form.attempt(lambda: request_load_run(user=request.user, **form.given()))
        return self.render(status=422) if requested is None else redirect(run_address(request, requested))


def run_address(request: HttpRequest, requested: Any) -> str:
    """Return the address of a requested run; add a message if nothing changed or the wake-up was not sent."""
    if is_unapproved(requested.run):
        messages.info(request, "The run waits for the approval of another user.")
    elif not requested.requested:
        state = requested.run.get_status_display().lower()
        messages.info(request, f"The run already exists and is {state}. Nothing was changed.")
    elif requested.notice:
        messages.warning(request, f"Load run {requested.notice}.")
    return reverse("run_page", args=[requested.run.run_id])


@require_safe
def run_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show a load run."""
    return _render_run(request, RunState.of(_run(run_id)), "loader/runs/run_page.html")


@require_safe
def run_live(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show the part of a run's page that changes; 204 while it is unchanged."""
    state = RunState.of(_run(run_id))
    if state.seen == request.GET.get("seen") and not state.run.is_finished:
        return HttpResponse(status=204)
    return _render_run(request, state, "loader/runs/run_live.html")


def _run(run_id: str) -> LoadRun:
    return get_object_or_404(load_runs().select_related("execution"), run_id=run_id)


def _render_run(request: HttpRequest, state: RunState, template: str) -> HttpResponse:
    live, query = live_part(request, state)
    return render(request, template, {"run": state.run, "live": live, "seen": state.seen, "query": query})


class RunPage(ForStarters, RowPage):
    """Base of pages about one load run."""

    model, name, by, page = LoadRun, "run", "run_id", "run_page"

    def rows(self) -> QuerySet[LoadRun]:
        return load_runs()


class RunCancel(RunPage, ActionPage):
    """Page that asks for confirmation and cancels the run."""

    template_name = "loader/runs/run_cancel.html"

    def act(self, form: Any) -> HttpResponse:
        run = request_cancel(run=self.row, user=self.request.user)
        if run.status == LoadRun.Status.CANCELED:
            messages.success(self.request, "The load run is canceled.")
        elif run.is_finished:
            messages.info(self.request, f"The load run had {run.get_status_display().lower()} before.")
        else:
            messages.info(self.request, "Cancel requested.")
        return redirect(self.address(run))


class RunApprove(RunPage, ActionPage):
    """Page that asks for confirmation and approves a maintenance run that another user requested."""

    permissions = (Permission.APPROVE_REPORTS,)
    form_class, template_name = NoteForm, "loader/runs/run_approve.html"

    def context(self) -> dict[str, Any]:
        return super().context() | {"asked": request_details(self.row), "scope": Scope.from_json(self.row.scope)}

    def act(self, form: NoteForm) -> HttpResponse:
        queued = approve_maintenance(run=self.row, user=self.request.user, note=form.cleaned_data["note"])
        messages.success(self.request, "Approved. The run is queued." if queued else "Approved. More approvals needed.")
        return redirect(self.address(self.row))


class RunAgain(RunPage, ButtonPage):
    """Button that queues a failed run again, under its own id; finished datasets are not repeated.

    The form may have ``allow_empty``, ``allow_deletes`` and ``full``, which are decisions for this run.
    """

    def act(self) -> str:
        decided = self.request.POST
        requested = request_load_run(
            run_id=self.row.run_id,
            user=self.request.user,
            allow_empty="allow_empty" in decided,
            allow_deletes="allow_deletes" in decided,
            full="full" in decided,
        )
        return run_address(self.request, requested)


class DatasetsLoad(ForStarters, SelectedDatasets):
    """Show which of the selected datasets a load writes, and the form that starts one load of these."""

    template_name = "loader/datasets/selected_load.html"

    def handle(self) -> HttpResponse:
        states = {state.key: state for state in described_states(environment=current_environment())}
        by_files = come_by_files(states)
        rows, names = [], []
        for dataset in self.selected:
            state = states.get(str(dataset.key))
            reason = reason_not_loaded(dataset, state, by_files)
            rows.append(SelectedRow(str(dataset), "" if reason else "is loaded", reason))
            if not reason and state is not None:
                names.append(state.qualified_name)
        selection = " ".join(names)
        if len(selection) > MAX_WORDS:
            return self.refuse(
                f"The names of the datasets have {len(selection)} characters; {MAX_WORDS} are possible. "
                "Select fewer, or load a schema or a tag."
            )
        return self.render(edits=rows, selection=selection, count=len(names))


def reason_not_loaded(dataset: TargetDataset, state: DatasetState | None, by_files: frozenset[str]) -> str:
    """Return the reason why a load does not write a dataset; empty if it does."""
    if dataset.history_of is not None:
        return f"A load writes it with {dataset.history_of}."
    if not dataset.active:
        return "It is retired."
    if state is None or not (is_loaded(state) or is_view_model(state)):
        return "It is a view, or loads do not write its layer."
    return "Its history comes as batch files." if state.key in by_files else ""
