"""Changes that are not in the warehouse: a part of pages, and the page before a report of selected datasets."""

from collections import Counter
from functools import partial
from typing import Any

from django.http import HttpResponse

from architecture.permissions import may_build, place_of_scope
from architecture.selectors import outdated_reports
from architecture.selectors.pending import pending, pending_operations
from architecture.services.environments import current_environment
from architecture.views.refusals import ForBuilders
from elevata.core.errors import as_sentence
from elevata.core.words import counted
from elevata.web.views import TemplatePage
from metadata.domain.scope import SELECTION, Scope, ScopeProblem
from metadata.views.bulk_edits import SelectedDatasets, SelectedRow


class PendingChanges(TemplatePage):
    """Pending changes of a schema (``schema``: its name), or of all datasets."""

    template_name = "architecture/pending.html"

    def context(self) -> dict[str, Any]:
        schema = self.request.GET.get("schema", "")
        environment = current_environment()
        changes = pending(environment, user=self.request.user, schema=schema)
        return super().context() | {
            "pending": changes,
            "environment": environment,
            "address": self.request.get_full_path(),
            "may_build": may_build(self.request.user, partial(place_of_scope, changes.scope, environment.name)),
        }


class DatasetsReport(ForBuilders, SelectedDatasets):
    """Show the pending changes of each selected dataset, and the form that creates one report of all."""

    template_name = "architecture/selected_report.html"

    def handle(self) -> HttpResponse:
        bases = {row.pk: row.history_of or row for row in self.selected}
        selection = " ".join(sorted(set(map(str, bases.values()))))
        try:
            Scope(SELECTION, selection)
        except ScopeProblem as refusal:
            return self.refuse(as_sentence(refusal.message))
        environment = current_environment()
        operations, problem = pending_operations(environment, outdated_reports.signal(environment.pk))
        counts = Counter(operation.key for operation in operations)
        rows = [SelectedRow(str(row), _effect(counts[str(bases[row.pk].key)], problem)) for row in self.selected]
        return self.render(edits=rows, problem=problem, selection=selection)


def _effect(count: int, problem: str) -> str:
    return "" if problem else counted(count, "change") if count else "no change"
