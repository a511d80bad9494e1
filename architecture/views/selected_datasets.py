"""Page before a report of the datasets that are selected in their list."""

from collections import Counter

from django.http import HttpResponse

from architecture.selectors import inbox
from architecture.selectors.pending import pending_operations
from architecture.services.states import current_environment
from architecture.views.refusals import ForBuilders
from elevata.core.words import counted
from metadata.views.bulk_edits import SelectedDatasets, SelectedRow


class DatasetsReport(ForBuilders, SelectedDatasets):
    """Show the pending changes of each selected dataset, and the form that creates one report of all."""

    template_name = "architecture/selected_report.html"

    def handle(self) -> HttpResponse:
        environment = current_environment()
        operations, problem = pending_operations(environment, inbox.signal(environment.pk))
        counts = Counter(operation.key for operation in operations)
        bases = {row.pk: row.history_of or row for row in self.datasets}
        rows = [SelectedRow(str(row), _effect(counts[str(bases[row.pk].key)], problem)) for row in self.datasets]
        return self.render(edits=rows, problem=problem, selection=" ".join(sorted(set(map(str, bases.values())))))


def _effect(count: int, problem: str) -> str:
    return "" if problem else counted(count, "change") if count else "no change"
