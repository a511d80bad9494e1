"""Page of a dataset's copies, and the button that makes them."""

from typing import Any

from elevata.accounts.permissions import may
from elevata.accounts.roles import Permission
from elevata.web.views import ButtonPage, DetailPage
from loader.selectors.copies import copy_lines
from loader.services.copies.requests import request_copy
from loader.views.runs.load_runs import ForStarters, run_address
from metadata.models import DatasetCopy
from metadata.permissions import here, may_change
from metadata.selectors.copies import copies_page
from metadata.views.base import BaseDatasetPage


class DatasetCopies(BaseDatasetPage, DetailPage):
    """Copies of a dataset with their last results."""

    http_method_names = ["get", "head"]
    template_name = "loader/datasets/dataset_copies.html"

    def context(self) -> dict[str, Any]:
        return super().context() | {
            "lines": copy_lines(self.row),
            "may_edit": may_change(self.request.user, DatasetCopy(dataset=self.row)),
            "may_copy": may(self.request.user, Permission.START_LOAD, on=here),
        }


class DatasetCopyNow(ForStarters, BaseDatasetPage, ButtonPage):
    """Button that makes the copies of a dataset, or compares them."""

    http_method_names = ["post"]
    address = staticmethod(copies_page)

    def act(self) -> str:
        check = "check" in self.request.POST
        requested = request_copy(dataset=str(self.row), check=check, user=self.request.user)
        return run_address(self.request, requested)
