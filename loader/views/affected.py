"""Page and part about what a change or a failure affects, its CSV file, and the button that notifies the owners."""

from functools import cached_property
from typing import Any

from django.contrib import messages
from django.core.exceptions import ObjectDoesNotExist
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.utils.http import urlencode

from architecture.views.refusals import ForBuilders, as_shown
from elevata.core.errors import ProductError
from elevata.core.spreadsheets import csv_text
from elevata.core.words import counted
from elevata.web.views import REFUSED, TemplatePage
from loader.forms.affected import NoteForm
from loader.selectors.affected import KINDS, Subject, affected_by, subject_of
from loader.services.affected import may_notify, notify_owners
from loader.views.datasets.datasets import CSV, result_file

# Lines that the part of another page shows; the page and the file have all.
SHOWN = 20


class AffectedPage(TemplatePage):
    """Effects of a dataset, column, source, report or load run of the address, by name; htmx gets the part."""

    template_name, part_template = "loader/affected_page.html", "loader/affected.html"

    @cached_property
    def asked(self) -> tuple[str, str]:
        given = [(kind, self.request.GET[kind][:200]) for kind in KINDS if kind in self.request.GET]
        if len(given) != 1:
            raise Http404
        return given[0]

    @cached_property
    def subject(self) -> Subject:
        try:
            return subject_of(*self.asked)
        except ObjectDoesNotExist:
            raise Http404 from None

    def context(self) -> dict[str, Any]:
        rows = affected_by(self.subject, self.request.user)
        return super().context() | {
            "subject": self.subject,
            "rows": rows,
            "shown": rows[:SHOWN],
            "query": urlencode(dict([self.asked])),
            "may_notify": may_notify(self.subject, self.request.user),
            "form": NoteForm(),
        }


class AffectedFile(AffectedPage):
    """The same as a CSV file, a line for each dataset through which something is affected."""

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        rows = [
            (each.kind, each.name, each.owner, dataset)
            for each in affected_by(self.subject, request.user)
            for dataset in each.datasets
        ]
        return result_file("affected.csv", csv_text(["kind", "name", "owner", "dataset"], rows), CSV, ())


class AffectedNotify(ForBuilders, AffectedPage):
    """Send the owners one message each."""

    http_method_names = ["post"]
    refusal = "Notifying owners needs the editor, approver or operator role."

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        form = NoteForm(request.POST)
        if not form.is_valid():
            return self.render(self.template_name, status=REFUSED, form=form)
        try:
            notified = notify_owners(subject=self.subject, user=request.user, note=form.cleaned_data["note"])
        except ProductError as error:
            context = {"refused": as_shown(error, request.user), "form": form}
            return self.render(self.template_name, status=error.status, **context)
        if notified.users:
            messages.success(request, f"Notified: {', '.join(notified.users)}.")
        if notified.unknown:
            owners = counted(len(notified.unknown), "owner")
            messages.warning(request, f"{owners} without an account here: {', '.join(notified.unknown)}.")
        return redirect(f"{self.subject.page}")
