"""Forms of quality checks: create, edit, retire, restore, delete."""

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from elevata.web.views import CreatePage, EditPage
from metadata.domain.quality.check_kinds import KINDS
from metadata.forms.quality import CheckForm, NewCheckForm
from metadata.models import QualityCheck, TargetDataset
from metadata.services import quality
from metadata.views.base import BaseDatasetPage, DatasetPartPage, Editing
from metadata.views.row_actions import DELETE, RESTORE_WORDS, RETIRE_WORDS, RowAction, Verb, no_dependents

# Key in the session of the check that the user created last, which its page runs at once.
NEW_CHECK = "new_check"


def quality_page(row: TargetDataset | QualityCheck) -> str:
    """Return the address of a dataset's quality page; of a check, of its line there."""
    if isinstance(row, QualityCheck):
        return f"{quality_page(row.dataset)}#check-{row.key}"
    return reverse("dataset_quality", args=[row.key])


class CheckCreate(Editing, BaseDatasetPage, CreatePage):
    """Create a check of a dataset: its kind first, then the form of this kind."""

    form_class, template_name = NewCheckForm, "metadata/dataset_part_form.html"
    message = "Check {row.name} created. Each load runs it."
    address = staticmethod(quality_page)

    @property
    def kind(self) -> str:
        """Return the chosen kind; empty if none is chosen."""
        kind = self.request.GET.get("kind", "")
        return kind if kind in KINDS else ""

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        if not self.kind:
            return self.render("metadata/check_kinds.html", kinds=KINDS.items())
        return super().get(request, **kwargs)

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        return super().post(request, **kwargs) if self.kind else self.get(request, **kwargs)

    def options(self) -> dict[str, Any]:  # type: ignore[override]  # pages do not answer OPTIONS
        return {"dataset": self.row, "kind": self.kind}

    def save(self, form: NewCheckForm) -> QualityCheck:
        check = quality.create_check(dataset=self.row, **form.given())
        self.request.session[NEW_CHECK] = str(check.key)
        return check

    def context(self) -> dict[str, Any]:
        context = super().context() | {"back": quality_page(self.row)}
        if not self.kind:
            return context
        kind = KINDS[self.kind]
        title = f"New check of {self.row.name}: {kind.label.lower()}"
        return context | {"title": title, "lead": kind.help, "button": "Create check"}


class CheckPage(DatasetPartPage):
    """Base of pages about one quality check."""

    name = "check"
    address = staticmethod(quality_page)

    def rows(self) -> QuerySet[QualityCheck]:
        return QualityCheck.objects.select_related("dataset__schema")


class CheckEdit(Editing, CheckPage, EditPage):
    """Edit a check, except its kind."""

    form_class, template_name, message = CheckForm, "metadata/dataset_part_form.html", "The check is saved."

    def options(self) -> dict[str, Any]:  # type: ignore[override]  # pages do not answer OPTIONS
        return {"dataset": self.row.dataset, "kind": self.row.kind}

    def save(self, form: CheckForm) -> QualityCheck:
        return quality.update_check(
            check=self.row, expected_version=form.edited_version, **form.changes(), reason=form.cleaned_data["reason"]
        )

    def context(self) -> dict[str, Any]:
        lead = KINDS[self.row.kind].help
        return super().context() | {"title": f"Check {self.row.name}", "lead": lead, "button": "Save"}


class CheckAction(CheckPage, RowAction):
    """Retire, restore or delete a check."""

    verbs = {
        verb.name: verb
        for verb in (
            Verb(*RETIRE_WORDS, no_dependents, quality.retire_check, takes_away=True),
            Verb(*RESTORE_WORDS, no_dependents, quality.unretire_check),
            Verb(DELETE, "Delete", "Delete check", "trash", "is deleted", no_dependents, quality.delete_check),
        )
    }

    def context(self) -> dict[str, Any]:
        return super().context() | {"kind": self.name}

    def parent_address(self) -> str:
        return quality_page(self.row.dataset)
