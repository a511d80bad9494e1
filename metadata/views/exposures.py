"""Forms of a dataset's contract and exposures."""

from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from django.urls import reverse

from elevata.web.views import CreatePage, EditPage
from metadata.forms.exposures import ContractForm, ExposureForm, NewExposureForm
from metadata.models import Exposure, TargetDataset, TargetSchema
from metadata.services import exposures
from metadata.services.datasets.targets import update_target_dataset
from metadata.views.base import BaseDatasetPage, DatasetPartPage, Editing
from metadata.views.row_actions import DELETE, RowAction, Verb, no_dependents


def contract_page(row: TargetDataset | Exposure) -> str:
    """Return the address of a dataset's contract; of an exposure, of its line there."""
    if isinstance(row, Exposure):
        return f"{contract_page(row.dataset)}#exposure-{row.key}"
    return reverse("dataset_contract", args=[row.key])


class ServingDatasetPage(BaseDatasetPage):
    """Base of pages that only datasets of the serving layer have."""

    def find(self) -> TargetDataset:
        row = super().find()
        if row.schema.layer != TargetSchema.Layer.SERVING:
            raise Http404("only datasets of the serving layer have a contract")
        return row


class ContractEdit(Editing, ServingDatasetPage, EditPage):
    """Declare a dataset a contract, or withdraw the contract."""

    form_class, template_name = ContractForm, "metadata/dataset_part_form.html"
    service, message = staticmethod(update_target_dataset), "The contract is saved. A change report puts it in force."
    address = staticmethod(contract_page)

    def context(self) -> dict[str, Any]:
        lead = "A contract names what consumers can rely on, and who answers for it."
        return super().context() | {"title": f"Contract of {self.row.name}", "lead": lead, "button": "Save"}


class ExposureCreate(Editing, ServingDatasetPage, CreatePage):
    """Create an exposure of a dataset."""

    form_class, template_name = NewExposureForm, "metadata/dataset_part_form.html"
    message = "Exposure {row.name} created."
    address = staticmethod(contract_page)

    def save(self, form: NewExposureForm) -> Exposure:
        return exposures.create_exposure(dataset=self.row, **form.given())

    def context(self) -> dict[str, Any]:
        return super().context() | {
            "back": contract_page(self.row),
            "title": f"New exposure of {self.row.name}",
            "lead": "A dashboard, notebook, file or application that reads the dataset.",
            "button": "Create exposure",
        }


class ExposurePage(DatasetPartPage):
    """Base of pages about one exposure."""

    name = "exposure"
    address = staticmethod(contract_page)

    def rows(self) -> QuerySet[Exposure]:
        return Exposure.objects.select_related("dataset__schema")


class ExposureEdit(Editing, ExposurePage, EditPage):
    """Edit an exposure."""

    form_class, template_name, message = ExposureForm, "metadata/dataset_part_form.html", "The exposure is saved."

    def save(self, form: ExposureForm) -> Exposure:
        return exposures.update_exposure(
            exposure=self.row,
            expected_version=form.edited_version,
            **form.changes(),
            reason=form.cleaned_data["reason"],
        )

    def context(self) -> dict[str, Any]:
        return super().context() | {"title": f"Exposure {self.row.name}", "button": "Save"}


class ExposureAction(ExposurePage, RowAction):
    """Delete an exposure."""

    verbs = {
        DELETE: Verb(
            DELETE, "Delete", "Delete exposure", "trash", "is deleted", no_dependents, exposures.delete_exposure
        )
    }

    def parent_address(self) -> str:
        return contract_page(self.row.dataset)
