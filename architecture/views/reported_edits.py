"""Edits of datasets, columns and models that are saved and reported by one button."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse

from architecture.views.report_steps import begin_report
from elevata.core.errors import ProductError
from elevata.web.forms import error_text
from elevata.web.views import FormPage
from metadata.domain.scope import DATASET, Scope
from metadata.models import TargetDataset
from metadata.views.column_forms import ColumnCreate, ColumnEdit
from metadata.views.datasets import DatasetEdit
from metadata.views.models import ModelEdit


class ReportedEdit(FormPage):
    """Base of edits after which a report of the dataset is created, as *Create report* of its pending changes does.

    The edit stays saved if the report is refused. The pages of the forms have addresses of their own.
    """

    http_method_names = ["post"]

    @property
    def dataset(self) -> TargetDataset:
        """Return the dataset to report on."""
        raise NotImplementedError

    def after_save(self, form: Any, row: Any) -> HttpResponse:
        response = super().after_save(form, row)
        base = self.dataset.history_of or self.dataset
        try:
            return begin_report(self.request, Scope(DATASET, str(base)))
        except ProductError as error:
            messages.error(self.request, f"The report was not created: {error_text(error, error.message)}")
            return response


class ColumnCreateReport(ReportedEdit, ColumnCreate):
    """Add a column and create a report of its dataset."""

    @property
    def dataset(self) -> TargetDataset:
        return self.row


class DatasetEditReport(ReportedEdit, DatasetEdit):
    """Save a dataset and create a report of it."""

    @property
    def dataset(self) -> TargetDataset:
        return self.row


class ModelEditReport(ReportedEdit, ModelEdit):
    """Save a model and create a report of it."""

    @property
    def dataset(self) -> TargetDataset:
        return self.row


class ColumnEditReport(ReportedEdit, ColumnEdit):
    """Save a column and create a report of its dataset."""

    @property
    def dataset(self) -> TargetDataset:
        return self.row.dataset
