"""Comments on a dataset."""

from typing import Any

from elevata.comments.views import comments_panel
from elevata.web.views import DetailPage
from metadata.views.base import DatasetPage


class DatasetComments(DatasetPage, DetailPage):
    """The newest comments on a dataset, and the form of a new one."""

    template_name = "metadata/dataset_comments.html"

    def context(self) -> dict[str, Any]:
        return super().context() | comments_panel(self.request.user, "dataset", self.row.key)
