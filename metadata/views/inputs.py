"""Forms of a dataset's inputs and references."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from elevata.web.views import CreatePage, DetailPage, EditPage
from metadata.forms.datasets import InputsForm, inputs_of
from metadata.forms.references import ReferenceEditForm, ReferenceForm, referable
from metadata.models import Reference, TargetDataset
from metadata.selectors import dependents
from metadata.services.datasets.targets import set_dataset_inputs
from metadata.services.references import create_reference, update_reference
from metadata.views.base import BaseDatasetPage, DatasetPage, Editing, ReferencePage, page_of

# Number of suggested parents; any other can be typed.
SUGGESTED = 500


class InputsEdit(Editing, BaseDatasetPage, EditPage):
    """Add, reorder or retire the inputs of a dataset."""

    form_class, template_name = InputsForm, "metadata/inputs_page.html"
    message = "Inputs saved."

    def options(self) -> dict[str, Any]:  # type: ignore[override]  # pages do not answer OPTIONS
        return {"dataset": self.row}

    def save(self, form: InputsForm) -> TargetDataset:
        assert form.wanted is not None  # of a valid form
        return set_dataset_inputs(
            dataset=self.row,
            expected_version=form.edited_version,
            inputs=form.wanted,
            reason=form.cleaned_data["reason"],
        )

    def after_save(self, form: InputsForm, row: TargetDataset) -> HttpResponse:
        self.page = "dataset_lineage"
        return super().after_save(form, row)

    def show(self, form: InputsForm, *, status: int = 200) -> HttpResponse:
        readers: dict[int, list[str]] = {}
        links = self.row.columns.filter(inputs__isnull=False).order_by("ordinal", "id")
        for column, item in links.values_list("name", "inputs__dataset_input"):
            readers.setdefault(item, []).append(column)
        items = self.row.inputs.select_related("source__system", "upstream__schema")
        context: dict[str, Any] = {
            "items": [(item, list(dict.fromkeys(readers.get(item.pk, ())))) for item in items],
            "downstream": dependents.downstream(self.row),
        }
        return self.render(form=form, status=status, **context, **_effects(self.row, form))


class InputsDependents(Editing, DatasetPage, DetailPage):
    """Fragment of the form: the dependents that the typed inputs affect."""

    template_name = "metadata/inputs_depend.html"

    def context(self) -> dict[str, Any]:
        return _effects(self.row, InputsForm(self.request.GET, dataset=self.row))


def _effects(dataset: TargetDataset, form: InputsForm) -> dict[str, Any]:
    """Return the dependents that the typed inputs affect; with unknown names, only those."""
    unknown: Any = form.errors.get("inputs", [])  # validates the form
    if form.wanted is None:
        return {"unknown": unknown, "dependents": []}
    affected = dependents.of_inputs_change(dataset, form.wanted)
    return {"unknown": [], "dependents": affected, "same": form.wanted == inputs_of(dataset)}


class ReferenceCreate(Editing, BaseDatasetPage, CreatePage):
    """Create a reference from a dataset to another by the business key of that one."""

    form_class, template_name = ReferenceForm, "metadata/reference_form.html"
    message = "{row.child} refers to {row.parent} now."
    address = staticmethod(page_of)

    def options(self) -> dict[str, Any]:  # type: ignore[override]  # pages do not answer OPTIONS
        return {"child": self.row, "initial": {"parent": self.request.GET.get("parent", "")}}

    def save(self, form: ReferenceForm) -> Reference:
        return create_reference(child=self.row, **form.given())

    def show(self, form: ReferenceForm, *, status: int = 200) -> HttpResponse:
        typed, back = form["parent"].value() or "", reverse("dataset_page", args=[self.row.key])
        return self.render(form=form, status=status, typed=typed, parents=list(referable()[:SUGGESTED]), back=back)


class ReferenceEdit(Editing, ReferencePage, EditPage):
    """Edit the rule for unknown parents of a reference."""

    form_class, template_name = ReferenceEditForm, "metadata/dataset_part_form.html"
    message = "The reference is saved."

    def save(self, form: ReferenceEditForm) -> Reference:
        return update_reference(
            reference=self.row,
            expected_version=form.edited_version,
            **form.changes(),
            reason=form.cleaned_data["reason"],
        )

    def context(self) -> dict[str, Any]:
        rule = f"A load applies the rule to keys in this dataset's rows that {self.row.parent} does not have."
        title = f"Reference {self.row}"
        return super().context() | {"dataset": self.row.child, "title": title, "lead": rule, "button": "Save"}


class ReferencePairs(Editing, DatasetPage, DetailPage):
    """Fragment of the form: the fields for the business key of the typed parent."""

    template_name = "metadata/reference_pairs.html"

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        parent = request.GET.get("parent", "")
        return self.render(form=ReferenceForm(initial={"parent": parent}, child=self.row), typed=parent)
