"""Forms of a dataset's copies."""

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404

from elevata.web.views import CreatePage, EditPage
from metadata.forms.copies import CopyForm, NewCopyForm
from metadata.models import DatasetCopy, System
from metadata.selectors.copies import copies_page
from metadata.services import copies
from metadata.views.base import BaseDatasetPage, DatasetPartPage, Editing
from metadata.views.row_actions import DELETE, RowAction, Verb, no_dependents


class CopyCreate(Editing, BaseDatasetPage, CreatePage):
    """Create a copy of a dataset."""

    form_class, template_name = NewCopyForm, "metadata/dataset_part_form.html"
    message = "Copy to {row.system} created. The next load makes it."
    address = staticmethod(copies_page)

    def save(self, form: NewCopyForm) -> DatasetCopy:
        given = dict(form.given())
        system = get_object_or_404(System, short_name=given.pop("to"))
        return copies.create_copy(dataset=self.row, to=system, **given)

    def context(self) -> dict[str, Any]:
        return super().context() | {
            "back": copies_page(self.row),
            "title": f"New copy of {self.row.name}",
            "lead": "The table in another database or folder, where dashboards and applications read it.",
            "button": "Create copy",
        }


class CopyPage(DatasetPartPage):
    """Base of pages about one copy."""

    name = "copy"
    address = staticmethod(copies_page)

    def rows(self) -> QuerySet[DatasetCopy]:
        return DatasetCopy.objects.select_related("dataset__schema", "system")


class CopyEdit(Editing, CopyPage, EditPage):
    """Edit a copy."""

    form_class, template_name, message = CopyForm, "metadata/dataset_part_form.html", "The copy is saved."

    def save(self, form: CopyForm) -> DatasetCopy:
        return copies.update_copy(
            copy=self.row,
            expected_version=form.edited_version,
            **form.changes(),
            reason=form.cleaned_data["reason"],
        )

    def context(self) -> dict[str, Any]:
        title = f"Copy of {self.row.dataset.name} in {self.row.system}"
        return super().context() | {"title": title, "button": "Save"}


class CopyAction(CopyPage, RowAction):
    """Delete a copy; its table in the target stays."""

    verbs = {DELETE: Verb(DELETE, "Delete", "Delete copy", "trash", "is deleted", no_dependents, copies.delete_copy)}

    def parent_address(self) -> str:
        return copies_page(self.row.dataset)
