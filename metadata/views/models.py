"""Pages of models: editor with preview, and the guided builder."""

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse

from elevata.core.errors import MetadataError, as_sentence
from elevata.web.views import CreatePage, EditPage, Page
from metadata.domain.models import ModelProblem
from metadata.domain.models.builder import build_select, read_build
from metadata.domain.models.functions import NAMES as FUNCTIONS
from metadata.forms.model_builder import BuilderState
from metadata.forms.models import MODEL_LAYERS, ModelForm, NewModelForm
from metadata.models import TargetDataset, TargetSchema
from metadata.selectors.models import readable_columns, readable_names
from metadata.services.datasets.targets import create_target_dataset, update_target_dataset
from metadata.services.models import describe_model
from metadata.views.base import TABLES_CHANGE, BaseDatasetPage, Editing

# Datasets whose columns one request asks for.
_MOST_COMPLETED = 50


class ModelEdit(Editing, BaseDatasetPage, EditPage):
    """Edit a model: its SELECT, its key and how its rows are stored."""

    form_class, service = ModelForm, staticmethod(update_target_dataset)
    template_name = "metadata/model_form.html"
    message = f"The model is saved. {TABLES_CHANGE}"

    def rows(self) -> Any:
        return super().rows().exclude(select="")

    def save(self, form: ModelForm) -> TargetDataset:
        accepted = form.cleaned_data["quoted_name"]
        return self.service(
            **self.row_argument, expected_version=form.edited_version, quoted_name=accepted, **form.changes()
        )

    def context(self) -> dict[str, Any]:
        return super().context() | {"names": readable_names()}


class ModelCreate(Editing, CreatePage):
    """Create a model."""

    form_class, service, page = NewModelForm, staticmethod(create_target_dataset), "dataset_page"
    template_name = "metadata/model_form.html"
    message = "{row} created. The next load creates its table or view."

    def options(self) -> dict[str, Any]:  # type: ignore[override]  # pages do not answer OPTIONS
        return {"initial": {"schema": self.request.GET.get("schema", "")}}

    def context(self) -> dict[str, Any]:
        has_schema = TargetSchema.objects.filter(layer__in=MODEL_LAYERS).exists()
        return {"back": reverse("dataset_list"), "any_schema": has_schema, "names": readable_names()}


class ModelCompletions(Page):
    """Completions of the editor of a model: names and functions, or the columns of the datasets ``name``."""

    http_method_names = ["get", "head"]

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        if names := request.GET.getlist("name")[:_MOST_COMPLETED]:
            return JsonResponse({"columns": readable_columns(names)})
        return JsonResponse({"names": readable_names(), "functions": sorted(FUNCTIONS)})


class ModelPreview(Editing, Page):
    """Fragment of the editor: the columns that follow from the SELECT as typed, or the error."""

    http_method_names = ["post"]
    template_name = "metadata/model_preview.html"

    def post(self, request: HttpRequest) -> HttpResponse:
        text = request.POST.get("select", "").replace("\r\n", "\n")
        if not text.strip():
            return self.render()
        try:
            described, _ = describe_model(text, where=request.POST.get("where", ""))
        except MetadataError as problem:
            return self.render(problem=as_sentence(problem.message))
        return self.render(described=described)


class ModelBuilder(Editing, Page):
    """Fragment of the editor: the guided builder, which writes the SELECT from choices."""

    http_method_names = ["post"]
    template_name = "metadata/model_builder.html"

    def post(self, request: HttpRequest) -> HttpResponse:
        state = BuilderState.from_form(request.POST)
        text = request.POST.get("select", "").replace("\r\n", "\n")
        if "open" in request.POST and text.strip():
            build = read_build(text)
            if build is None:
                return self.render(state=BuilderState(), unreadable=True, names=readable_names())
            state = BuilderState.from_build(build)
        written = ""
        if "write" in request.POST:
            try:
                written = build_select(state.build())
            except ModelProblem as problem:
                state.problem = as_sentence(problem.message)
        return self.render(state=state, written=written, names=readable_names())
