"""Actions on a dataset, column or reference other than editing: rename, retire, restore, delete.

Each is a page that shows the dependents of the row, with a form that performs the action.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from elevata.core.errors import MetadataError, as_sentence
from elevata.web.forms import EditForm
from elevata.web.views import DetailPage, EditPage
from metadata.forms.columns import RenameForm, VerbForm
from metadata.models import Reference, TargetColumn, TargetDataset
from metadata.selectors import dependents
from metadata.selectors.dependents import Dependent
from metadata.services import deletion, lifecycle, references
from metadata.services.rows.checks import check_target_column, check_target_dataset
from metadata.views.base import ColumnPage, DatasetPage, Editing, ReferencePage, page_of

RENAME, RETIRE, RESTORE, DELETE = "rename", "retire", "restore", "delete"
Row = TargetDataset | TargetColumn | Reference


@dataclass(frozen=True)
class Verb:
    """An action: its labels, its service, and the selector of its dependents. ``done`` ends the message afterwards."""

    name: str
    title: str
    button: str
    icon: str
    done: str
    depends: Callable[[Any], list[Dependent]]
    save: Callable[..., Any]
    form: type[EditForm] = VerbForm
    takes_away: bool = False


_RENAME = (RENAME, "Rename", "Rename", "tag", "is a former name now; search still finds it")
RETIRE_WORDS = (RETIRE, "Retire", "Retire", "ban", "is out of use")
RESTORE_WORDS = (RESTORE, "Bring back", "Bring back", "rotate", "is in use again")
_DELETE = (DELETE, "Delete", "Delete the description", "trash", "is deleted; its table is as it was")


def no_dependents(row: Row) -> list[Dependent]:
    """Return no dependents, for actions that need none."""
    return []


DATASET_VERBS = {
    verb.name: verb
    for verb in (
        Verb(*_RENAME, dependents.of_dataset_rename, lifecycle.rename_dataset, RenameForm),
        Verb(*RETIRE_WORDS, dependents.of_dataset_retirement, lifecycle.retire_dataset, takes_away=True),
        Verb(*RESTORE_WORDS, no_dependents, lifecycle.unretire_dataset),
        Verb(*_DELETE, dependents.of_dataset_deletion, deletion.delete_dataset, takes_away=True),
    )
}
COLUMN_VERBS = {
    verb.name: verb
    for verb in (
        Verb(*_RENAME, dependents.of_column_rename, lifecycle.rename_column, RenameForm),
        Verb(*RETIRE_WORDS, dependents.of_column_retirement, lifecycle.retire_column, takes_away=True),
        Verb(*RESTORE_WORDS, no_dependents, lifecycle.unretire_column),
        Verb(*_DELETE, dependents.of_column_deletion, deletion.delete_column, takes_away=True),
    )
}

REFERENCE_VERBS = {
    verb.name: verb
    for verb in (
        Verb(*RETIRE_WORDS, dependents.of_reference_retirement, references.retire_reference, takes_away=True),
        Verb(*RESTORE_WORDS, no_dependents, references.unretire_reference),
    )
}


class RowAction(Editing, EditPage):
    """Base of the pages of an action: ``verb`` names it, ``verbs`` holds those of the kind of row."""

    verb = ""
    verbs: ClassVar[dict[str, Verb]]
    template_name = "metadata/verb_page.html"
    _saved: Any = None

    @property
    def action(self) -> Verb:
        return self.verbs[self.verb]

    @property
    def form_class(self) -> type[EditForm]:  # type: ignore[override]  # it depends on the verb
        return self.action.form

    @property
    def overwrite(self) -> str:  # type: ignore[override]  # it depends on the verb
        return f"{self.action.button} all the same"

    @property
    def dataset(self) -> TargetDataset:
        """Return the dataset that the row is or belongs to."""
        return self.row.child if isinstance(self.row, Reference) else getattr(self.row, "dataset", self.row)

    @property
    def label(self) -> str:
        """Return the row's name; a reference is named by its ends."""
        return str(self.row) if isinstance(self.row, Reference) else self.row.name

    def context(self) -> dict[str, Any]:
        affected = self.action.depends(self.row)
        # No column reads a reference or a check, so nothing downstream changes with it.
        flows = self.verb in (RENAME, RETIRE) and isinstance(self.row, TargetDataset | TargetColumn)
        return super().context() | {
            "verb": self.action,
            "kind": self.name,
            "row": self.row,
            "name": self.label,
            "dataset": self.dataset,
            "dependents": affected,
            "refusing": [dependent for dependent in affected if dependent.effect == dependents.REFUSES],
            "downstream": dependents.downstream(self.dataset) if flows else [],
        }

    def save(self, form: EditForm) -> str:
        label = self.label
        values = {name: value for name, value in form.cleaned_data.items() if name != "version"}
        self._saved = self.action.save(**self.row_argument, expected_version=form.edited_version, **values)
        return label

    def after_save(self, form: EditForm, label: str) -> HttpResponse:
        is_dropped = self.verb == RENAME and label not in self._saved.former_names
        self.add_message(f"{label} {f'is {self._saved.name} now' if is_dropped else self.action.done}.")
        return redirect(self.address(self.row) if self.verb != DELETE else self.parent_address())

    def parent_address(self) -> str:
        """Return the page to show after the row was deleted."""
        return page_of(self.dataset)


class DatasetAction(DatasetPage, RowAction):
    """Rename, retire, restore or delete a dataset."""

    verbs = DATASET_VERBS

    def parent_address(self) -> str:
        return reverse("dataset_list")


class ColumnAction(ColumnPage, RowAction):
    """Rename, retire, restore or delete a column."""

    verbs = COLUMN_VERBS


class ReferenceAction(ReferencePage, RowAction):
    """Retire or restore a reference."""

    verbs = REFERENCE_VERBS


class RenameDependents(Editing, DetailPage):
    """Base of the fragments of a rename page: the dependents of the typed name, or why it is refused."""

    template_name = "metadata/dependents.html"
    depends: ClassVar[Callable[..., list[Dependent]]]
    check: ClassVar[Callable[..., None]]

    def context(self) -> dict[str, Any]:
        name = self.request.GET.get("name", "").strip()
        return {"dependents": self.depends(self.row, name), "refusal": self.reason_against(name) if name else ""}

    def reason_against(self, name: str) -> str:
        """Return the reason why the row cannot have this name, for example that it is taken."""
        self.row.name = name
        try:
            self.check(self.row)
        except MetadataError as problem:
            return as_sentence(problem.message)
        return ""


class DatasetDependents(DatasetPage, RenameDependents):
    """Dependents of a new name of a dataset."""

    depends, check = staticmethod(dependents.of_dataset_rename), staticmethod(check_target_dataset)


class ColumnDependents(ColumnPage, RenameDependents):
    """Dependents of a new name of a column."""

    depends, check = staticmethod(dependents.of_column_rename), staticmethod(check_target_column)
