"""Page before a report of the datasets that are selected in their list."""

from collections import Counter

from django.http import HttpResponse

from architecture.domain.report import SELECTION, Scope, ScopeProblem
from architecture.selectors import inbox
from architecture.selectors.pending import pending_operations
from architecture.services.states import current_environment
from architecture.views.refusals import ForBuilders
from elevata.core.errors import as_sentence
from elevata.core.words import counted
from metadata.views.bulk_edits import SelectedDatasets, SelectedRow


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
        operations, problem = pending_operations(environment, inbox.signal(environment.pk))
        counts = Counter(operation.key for operation in operations)
        rows = [SelectedRow(str(row), _effect(counts[str(bases[row.pk].key)], problem)) for row in self.selected]
        return self.render(edits=rows, problem=problem, selection=selection)


def _effect(count: int, problem: str) -> str:
    return "" if problem else counted(count, "change") if count else "no change"
