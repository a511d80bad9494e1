"""Guided path that adds a source: kind, system, contents, columns, load type, summary, first rows.

Contents are on the page of a system (``loader.views.sources.systems``), columns on the import page
(``loader.views.sources.imports``).
"""

from functools import cached_property
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse

from elevata.accounts.access import holders
from elevata.accounts.permissions import may
from elevata.accounts.roles import Permission
from elevata.comments.forms import NewCommentForm
from elevata.core.errors import MetadataError, ProductError, as_sentence
from elevata.web.forms import error_text
from elevata.web.requests import htmx_of
from elevata.web.views import REFUSED, CreatePage, RowPage, TemplatePage
from loader.contract.refusals import Refusal
from loader.forms.source_drafts import SourceDraft
from loader.models import DatasetRun, LoadRun
from loader.selectors.runs import load_runs
from loader.selectors.source_state import deliveries, loaded_dataset
from loader.services.loads.load_runs import request_load_run
from loader.services.reads.read_permissions import may_read
from loader.services.sources.uploads import takes_uploads
from loader.sources.page_limits import must_be_allowed
from loader.sources.systems import reach
from loader.views.runs.run_status import RunState
from loader.views.sources.source_steps import step_address, steps_of
from loader.views.sources.systems import SourcesPage
from metadata.domain.history.history_policy_labels import CHOICES
from metadata.domain.scope import DATASET, Scope
from metadata.domain.sources.formats import FORMATS_OF_KIND, label_of
from metadata.domain.sources.reading_options import shown_options
from metadata.forms.load_type import LoadTypeForm
from metadata.forms.systems import KIND_SENTENCES, NewSystemForm
from metadata.models import System
from metadata.permissions import here
from metadata.selectors.datasets import source_dataset_detail, systems
from metadata.services.datasets.generation_preview import import_and_generate, preview_import
from metadata.services.sources import create_system
from metadata.views.base import SourceEditing

CREATE_ONLY = "create_only"
# Number of registered systems that the first step links for each kind.
SYSTEMS_SHOWN = 5
# Users that the prepared comment mentions at most.
ASKED = 3


class SourceAdd(SourceEditing, TemplatePage):
    """Kinds of systems to add a source from."""

    template_name = "loader/add_source/kind.html"

    def context(self) -> dict[str, Any]:
        registered: dict[str, list[System]] = {}
        for system in systems().filter(active=True).order_by("short_name"):
            registered.setdefault(system.kind, []).append(system)
        kinds = [
            (kind, label, KIND_SENTENCES.get(System.Kind(kind), ""), registered.get(kind, [])[:SYSTEMS_SHOWN])
            for kind, label in System.Kind.choices
            if FORMATS_OF_KIND[kind]
        ]
        return {"kinds": kinds, "steps": steps_of("Kind")}


class SourceAddSystem(SourceEditing, CreatePage):
    """Systems of a kind, and the form of a new one with a test of its connection."""

    form_class, template_name = NewSystemForm, "loader/add_source/system.html"
    page, page_by = "system_discover", "short_name"
    message = "{row.name} registered. Choose what to load."

    def address(self, row: System) -> str:
        """Return the address of the system's contents; of a system for copies, its own page."""
        return reverse(self.page if FORMATS_OF_KIND[row.kind] else "system_page", args=[row.short_name])

    @property
    def kind(self) -> str:
        if self.kwargs["kind"] not in System.Kind.values:
            raise Http404
        return self.kwargs["kind"]

    def options(self) -> dict[str, Any]:  # type: ignore[override]  # pages do not answer OPTIONS
        return {"kind": self.kind}

    def context(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "label": System.Kind(self.kind).label,
            "systems": systems().filter(kind=self.kind, active=True),
            "steps": steps_of("System", kind=self.kind),
        }

    def save(self, form: NewSystemForm) -> System:
        given = form.given()
        must_be_allowed(System(kind=given["kind"], location=given["location"]))
        return create_system(**given)


class SourceAddTest(SourceAddSystem):
    """Test of a connection as it was typed; nothing is stored."""

    part_template = "loader/sources/system_answer.html"

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        return redirect("source_add_system", self.kind)

    def process(self, form: NewSystemForm) -> HttpResponse:
        try:
            result: dict[str, Any] = {"reached": reach(form.typed())}
        except Refusal as refusal:
            result = {"refused": refusal.as_json()}
        # Without a script the whole page is shown, with what was typed and the result.
        return self.render(form=form, **result)


class DraftPage(SourcesPage):
    """Base of steps about a draft; without one, its columns are to be chosen first."""

    draft: SourceDraft
    step: str

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if self.is_allowed(request):
            location = request.GET.get("location", "").strip()
            draft = SourceDraft.of(request.session, self.row, location)
            if draft is None:
                messages.info(request, "Choose the columns first.")
                return redirect(
                    step_address("source_import", self.row, location)
                    if location
                    else reverse("system_discover", args=[self.row.short_name])
                )
            self.draft = draft
        return super().dispatch(request, *args, **kwargs)

    def context(self) -> dict[str, Any]:
        location = self.draft.place.location
        steps = steps_of(self.step, self.row, location=location)
        return super().context() | {"draft": self.draft, "steps": steps, "back": self.back}

    @property
    def back(self) -> str:
        """Return the address of the step before, with its decisions."""
        return step_address("source_import", self.row, self.draft.place.location, draft="1")


class SourceLoadType(DraftPage):
    """Load type and history of a new source, each with a sentence."""

    template_name, step = "loader/add_source/load_type.html", "Load type"

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        return self.show(self.draft.load_type())

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        form = self.draft.load_type(request.POST)
        checked = form.attempt(lambda: preview_import(**self.draft.described(form)))
        if checked is None:
            return self.show(form, status=REFUSED)
        self.draft.with_load_type(request.POST).keep(request.session)
        return redirect(step_address("source_summary", self.row, self.draft.place.location))

    def show(self, form: LoadTypeForm, *, status: int = 200) -> HttpResponse:
        return self.render(status=status, form=form, group=form.group())


class SourceSummary(DraftPage):
    """Everything that will be created, with the button that creates it and starts the first load."""

    template_name, step = "loader/add_source/summary.html", "Summary"

    @property
    def back(self) -> str:
        return step_address("source_load_type", self.row, self.draft.place.location)

    @cached_property
    def load_type(self) -> LoadTypeForm:
        """Return the form of the step before; it is invalid if that is not done, or not any more for these columns."""
        return self.draft.load_type()

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        return self.show() if self.load_type.is_valid() else redirect(self.back)

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        """Create source and targets, all or nothing; then start the load of its last table."""
        if not self.load_type.is_valid():
            return redirect(self.back)
        try:
            source, _ = import_and_generate(**self.draft.described(self.load_type))
        except MetadataError as error:
            return self.show(error=as_sentence(error.one_line()))
        self.draft.drop(request.session)
        may_start = may(request.user, Permission.START_LOAD, on=here)
        if CREATE_ONLY in request.POST or not may_start:
            messages.success(request, f"{source} created with its targets.")
            return redirect("source_page" if may_start else "source_handover", source.key)
        try:
            requested = request_load_run(scope=Scope(DATASET, str(loaded_dataset(source))), user=request.user)
        except ProductError as error:
            messages.error(request, f"{source} created. The load did not start: {error_text(error, error.message)}")
            return redirect("source_page", source.key)
        return redirect("source_first_load", source.key, requested.run.run_id)

    def show(self, *, error: str = "") -> HttpResponse:
        context: dict[str, Any] = {"error": error, "preview": None}
        try:
            context["preview"] = preview_import(**self.draft.described(self.load_type))
        except MetadataError as problem:
            context["error"] = error or as_sentence(problem.one_line())
        chosen = self.load_type.cleaned_data["input"]
        context["delivery_type"] = next(choice for choice in CHOICES["input"] if choice.value == chosen)
        context["load_type"] = self.load_type.load_type
        watermark = self.load_type.cleaned_data.get("watermark")
        context["rows_read"] = f"Only new and changed rows, by {watermark}" if watermark else ""
        context["options"] = shown_options(self.draft.place.options or {})
        context["format"] = label_of(self.draft.place.format)
        context["may_start"] = may(self.request.user, Permission.START_LOAD, on=here)
        return self.render(status=REFUSED if context["error"] else 200, **context)


class SourceFirstLoad(RowPage, TemplatePage):
    """Progress of a source's first load, and its first rows."""

    name, page = "source", "source_page"
    template_name, part_template = "loader/add_source/first_load.html", "loader/add_source/first_load_part.html"
    rows = staticmethod(source_dataset_detail)

    def context(self) -> dict[str, Any]:
        return super().context() | {"steps": steps_of("First rows")}

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        run = get_object_or_404(load_runs(), run_id=self.kwargs["run_id"])
        state = RunState.of(run)
        if htmx_of(request) and state.seen == request.GET.get("seen") and not run.is_finished:
            return HttpResponse(status=204)
        return self.render(**self._progress(state))

    def _progress(self, state: RunState) -> dict[str, Any]:
        source, run, dataset = self.row, state.run, loaded_dataset(self.row)
        keys = list(source.generated.values_list("key", flat=True))
        rows = DatasetRun.objects.filter(run=run, dataset_key__among=keys).select_related("dataset__schema", "run")
        return {
            "run": run,
            "seen": state.seen,
            "wait": state.wait,
            "workers": state.workers,
            "rows": rows.order_by("ordinal"),
            "dataset": dataset,
            "history": dataset.history if dataset is not None and dataset.historize else None,
            "is_loaded": run.status == LoadRun.Status.SUCCEEDED,
            "is_first": not deliveries(source).filter(status=LoadRun.Status.SUCCEEDED).exclude(run=run).exists(),
            "is_repeatable": run.status in LoadRun.RESTARTABLE and dataset is not None,
            "may_start": may(self.request.user, Permission.START_LOAD, on=here),
            "may_edit": may(self.request.user, Permission.CHANGE_METADATA),
            "uploadable": takes_uploads(source),
            "may_read": dataset is not None and may_read(self.request.user, dataset),
            "question": {"kind": "sample", "rows": 20},
        }


class SourceHandover(SourceFirstLoad):
    """Last step without the permission to start loads: users with it, a comment to them, and then the first rows."""

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        keys = list(self.row.generated.values_list("key", flat=True))
        row = DatasetRun.objects.filter(dataset_key__among=keys).order_by("-pk").first()
        if row is not None:
            return self.render(**self._progress(RunState.of(load_runs().get(pk=row.run_id))))
        if htmx_of(request):
            return HttpResponse(status=204)
        return self.render(**self._question())

    def _question(self) -> dict[str, Any]:
        names = sorted(user.get_username() for user in holders(Permission.START_LOAD, here()))
        dataset = loaded_dataset(self.row)
        asked = " ".join(f"@{name}" for name in names[:ASKED])
        text = f"{asked} {self.row} and its targets are created. Please start the first load of {dataset}."
        return {
            "is_first": True,
            "dataset": dataset,
            "names": names,
            "may_start": may(self.request.user, Permission.START_LOAD, on=here),
            "comment_form": NewCommentForm(initial={"text": text}),
            "comments_page": dataset and reverse("comment_list", args=["dataset", dataset.key]),
        }
