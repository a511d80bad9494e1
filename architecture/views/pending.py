"""Part of pages with the changes that are not in the warehouse."""

from typing import Any
from uuid import UUID

from django.http import Http404
from django.shortcuts import get_object_or_404

from architecture.domain.change_policy import SAFE
from architecture.selectors.pending import pending
from architecture.selectors.report_details import may_build
from architecture.services.change_policy import policy_of
from architecture.services.states import current_environment
from elevata.web.views import TemplatePage
from metadata.models import TargetDataset


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
