"""Page of a dataset's quality: its checks with their results."""

from typing import Any

from elevata.web.views import DetailPage
from loader.quality_results import check_lines, may_see_samples
from metadata.permissions import may_change
from metadata.views.base import BaseDatasetPage


class DatasetQuality(BaseDatasetPage, DetailPage):
    """Quality checks of a dataset with their last results."""

    template_name = "loader/quality/dataset_quality.html"

    def context(self) -> dict[str, Any]:
        return super().context() | {
            "lines": check_lines(self.row),
            "may_edit": may_change(self.request.user, self.row),
            "samples_shown": may_see_samples(self.request.user, self.row),
        }
