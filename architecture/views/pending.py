"""Changes that are not in the warehouse: a part of pages, and the page before a report of selected datasets."""

from collections import Counter
from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404

from architecture.domain.change_policy import SAFE
from architecture.domain.scope import SELECTION, Scope, ScopeProblem
from architecture.permissions import may_build
from architecture.selectors import outdated_reports
from architecture.selectors.pending import pending, pending_operations
from architecture.services.change_policy import policy_of
from architecture.services.environments import current_environment
from architecture.views.refusals import ForBuilders
from elevata.core.errors import as_sentence
from elevata.core.words import counted
from elevata.web.views import TemplatePage
from metadata.models import TargetDataset
from metadata.views.bulk_edits import SelectedDatasets, SelectedRow


class PendingChanges(TemplatePage):
    """Pending changes of a dataset (``dataset``: its key), of a schema (``schema``: its name), or of all datasets."""

    template_name = "architecture/pending.html"

    def context(self) -> dict[str, Any]:
        schema, dataset = self.request.GET.get("schema", ""), self._dataset()
        environment = current_environment()
        changes = pending(environment, user=self.request.user, dataset=dataset, schema=schema)
        policy = policy_of(environment)
        return super().context() | {
            "pending": changes,
            "environment": environment,
            "address": self.request.get_full_path(),
            "may_build": may_build(self.request.user),
            "is_automatic": changes.is_automatic and policy.automatic_safe_changes and not policy.approvals[SAFE].count,
        }

    def _dataset(self) -> TargetDataset | None:
        """Return the dataset of the address, or the base of a history."""
        key = self.request.GET.get("dataset", "")
        if not key:
            return None
        try:
            rows = TargetDataset.objects.select_related("schema", "history_of__schema")
            dataset = get_object_or_404(rows, key=UUID(key))
        except ValueError:
            raise Http404 from None
        return dataset.history_of or dataset


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
