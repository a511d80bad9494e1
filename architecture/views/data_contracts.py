"""Page of a dataset's contract."""

from typing import Any

from architecture.selectors.data_contracts import contracts_of
from architecture.services.environments import current_environment
from elevata.web.views import DetailPage
from metadata.permissions import may_change
from metadata.views.exposures import ServingDatasetPage


class DatasetContract(ServingDatasetPage, DetailPage):
    """Contract of a dataset: version, promise, pending change and exposures."""

    http_method_names = ["get", "head"]
    template_name = "architecture/dataset_contract.html"

    def context(self) -> dict[str, Any]:
        environment = current_environment()
        return super().context() | {
            "environment": environment,
            "contract": contracts_of([self.row], environment=environment)[str(self.row.key)],
            "exposures": list(self.row.exposures.order_by("name")),
            "may_edit": may_change(self.request.user, self.row),
        }
