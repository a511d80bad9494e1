"""Pages of proposals to change a source's contract, and the check of a source."""

from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse

from elevata.accounts.permissions import may
from elevata.accounts.places import Place
from elevata.accounts.roles import Permission
from elevata.core.errors import ProductError, as_sentence
from elevata.web.forms import ProductForm
from elevata.web.views import REFUSED, ActionPage, ButtonPage, RowPage
from loader.contract.refusals import Refusal
from loader.domain.sources.proposal_states import ACCEPTED, OPEN
from loader.domain.sources.schema_changes import (
    CLASHING,
    GONE,
    NEW,
    RECASED,
    RENAMED,
    RETYPED,
    WIDER,
    SchemaChange,
    join_rename,
    split_rename,
)
from loader.models import SourceProposal
from loader.services.sources.checks import check_source
from loader.services.sources.previews import preview_proposal
from loader.services.sources.proposals import accept_proposal, dismiss_proposal, open_changes, report_scope
from metadata.views.base import TABLES_CHANGE, SourceDatasetPage, SourceEditing

RENAME, SPLIT, ADD, JOIN = "rename", "split", "add", "join"


@dataclass(frozen=True)
class Choice:
    """Chosen changes: their ids, and the ids of renames that are taken as two columns."""

    take: tuple[str, ...]
    split: tuple[str, ...] = ()

    @classmethod
    def sent(cls, data: QueryDict, changes: tuple[SchemaChange, ...]) -> "Choice":
        """Return the choice of a form: ticked changes, and for each rename and each new column what it is."""
        answers = [answer.partition("|") for answer in data.getlist("rename")]
        renames = {id_: kind for kind, _, id_ in answers}
        split = tuple(change for change in changes if renames.get(change.id) == SPLIT)
        parts = (part.id for change in split for part in split_rename(change))
        renamed = (change.id for change in changes if renames.get(change.id) == RENAME)
        named = (id_ for id_, kind in renames.items() if kind in (ADD, JOIN))
        return cls((*data.getlist("take"), *renamed, *named, *parts), tuple(change.id for change in split))

    @classmethod
    def proposed(cls, changes: tuple[SchemaChange, ...]) -> "Choice":
        """Return what is ticked at first: changes that lose nothing. A user confirms renames and removals."""
        return cls(tuple(change.id for change in changes if _loses_nothing(change)))


def _joins(changes: tuple[SchemaChange, ...]) -> dict[str, list[SchemaChange]]:
    """Return the renames that each new column can be, by its id: one for each column that is gone."""
    gone = [change for change in changes if change.kind == GONE]
    return {new.id: [join_rename(former, new) for former in gone] for new in changes if new.kind == NEW and gone}


def _loses_nothing(change: SchemaChange) -> bool:
    return change.kind in (NEW, RECASED) or (change.kind == RETYPED and change.relation == WIDER)


class ProposalPage(RowPage):
    """A proposal: its changes with checkboxes, a preview of the chosen ones, and the form that accepts these."""

    model, name, page = SourceProposal, "proposal", "source_proposal"
    permissions, place, methods = (Permission.CHANGE_METADATA,), Place, ("POST",)
    template_name = "loader/sources/proposal_page.html"

    def rows(self) -> QuerySet[SourceProposal]:
        return SourceProposal.objects.select_related("source__system", "run", "decided_by")

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        changes = self._changes()
        sent = "choose" in request.GET
        return self.show(changes, Choice.sent(request.GET, changes) if sent else Choice.proposed(changes))

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        changes = self._changes()
        choice = Choice.sent(request.POST, changes)
        try:
            accept_proposal(
                proposal=self.row,
                take=choice.take,
                split=choice.split,
                previewed=request.POST.get("fingerprint", ""),
                reason=request.POST.get("reason", "").strip()[:1000],
            )
        except ProductError as error:
            status = error.status if error.status == 409 else REFUSED
            return self.show(self._changes(), choice, problem=as_sentence(error.one_line()), status=status)
        messages.success(request, f"The contract and its targets are changed. {TABLES_CHANGE}")
        return redirect("source_proposal", self.row.key)

    def _changes(self) -> tuple[SchemaChange, ...]:
        is_open = self.find().status == OPEN
        return open_changes(self.row) if is_open else self.row.schema_changes

    def show(
        self, changes: tuple[SchemaChange, ...], choice: Choice, *, problem: str = "", status: int = 200
    ) -> HttpResponse:
        proposal = self.find()
        context: dict[str, Any] = {
            "proposal": proposal,
            "source": proposal.source,
            "is_open": proposal.status == OPEN,
            "changes": changes,
            "choice": choice,
            "problem": problem,
            "renames": [change for change in changes if change.kind == RENAMED],
            "joins": _joins(changes),
            "single": [change for change in changes if change.kind not in (RENAMED, CLASHING)],
            "clashing": [change for change in changes if change.kind == CLASHING],
            "may_edit": may(self.request.user, Permission.CHANGE_METADATA),
            "scope": report_scope(proposal.source) if proposal.status == ACCEPTED else None,
        }
        if proposal.status == OPEN and choice.take and context["may_edit"]:
            context |= self._preview(proposal, choice)
        return self.render(status=status, **context)

    def _preview(self, proposal: SourceProposal, choice: Choice) -> dict[str, Any]:
        try:
            return {"preview": preview_proposal(proposal=proposal, take=choice.take, split=choice.split)}
        except ProductError as error:
            return {"refused": as_sentence(error.one_line())}


class DismissForm(ProductForm):
    """Reason for dismissing a proposal."""

    reason = forms.CharField(
        max_length=1000,
        required=False,
        strip=True,
        help_text="Shown with the proposal and in the change log.",
    )


class ProposalDismiss(SourceEditing, ActionPage):
    """Form that dismisses a proposal."""

    model, name, page = SourceProposal, "proposal", "source_proposal"
    form_class, template_name = DismissForm, "loader/sources/proposal_dismiss.html"

    def rows(self) -> QuerySet[SourceProposal]:
        return SourceProposal.objects.select_related("source__system")

    def context(self) -> dict[str, Any]:
        return super().context() | {"source": self.row.source, "back": self.address(self.row)}

    def act(self, form: DismissForm) -> HttpResponse:
        dismiss_proposal(proposal=self.row, **form.given())
        messages.success(self.request, "The proposal is dismissed. Loads do not propose the same changes again.")
        return redirect("source_page", self.row.source.key)


class SourceCheckNow(SourceEditing, SourceDatasetPage, ButtonPage):
    """Button that reads a source's schema now and compares it with the contract."""

    def act(self) -> str | None:
        result = check_source(source=self.row, renew=True)
        if result.error:
            raise Refusal.from_json(result.error)
        if result.proposal is not None:
            return reverse("source_proposal", args=[result.proposal.key])
        messages.success(self.request, "The source agrees with its contract.")
        return None
