"""Pages of a dataset's quality: checks with their results, profile, suggested checks, quarantine."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse

from elevata.web.views import ButtonPage, DetailPage
from loader.contract.check_outcomes import PROBLEMS
from loader.forms.maintenance import QuarantineForm
from loader.selectors.loads import newest_succeeded
from loader.selectors.quality_results import check_lines, may_see_samples, profile_for, suggestions_for
from loader.services.maintenance.quarantine import request_quarantine
from loader.services.reads.read_permissions import may_read
from loader.services.reads.read_requests import PROFILE, QUARANTINED
from loader.views.datasets.datasets import DataPage
from loader.views.runs.maintenance_runs import MaintainedPage, RequestPage
from metadata.models import TargetDataset, TargetSchema
from metadata.permissions import may_change
from metadata.services.quality import create_check
from metadata.views.base import BaseDatasetPage, DatasetPage, Editing
from metadata.views.quality import NEW_CHECK, quality_page


class DatasetQuality(BaseDatasetPage, DetailPage):
    """Quality checks of a dataset with their last results."""

    http_method_names = ["get", "head"]
    template_name = "loader/quality/dataset_quality.html"

    def context(self) -> dict[str, Any]:
        lines = check_lines(self.row, self.request.user)
        new = self.request.session.pop(NEW_CHECK, "")
        is_loaded = bool(new) and newest_succeeded([self.row.key]).exists()
        return super().context() | {
            "view": "checks",
            "lines": lines,
            "new_check": new if is_loaded else "",
            "has_failed": any(line.newest is not None and line.newest.outcome in PROBLEMS for line in lines),
            "may_edit": may_change(self.request.user, self.row),
            "may_read": may_read(self.request.user, self.row),
            "checkable": self.row.materialization == TargetDataset.Materialization.TABLE
            and any(line.check.active for line in lines),
            "samples_shown": may_see_samples(self.request.user, self.row),
        }


class DatasetProfile(DataPage, BaseDatasetPage, DetailPage):
    """Stored profile of a dataset's table, with suggested checks; it is computed on request."""

    http_method_names = ["get", "head"]
    template_name, view = "loader/quality/dataset_profile.html", "profile"

    def context(self) -> dict[str, Any]:
        profile = profile_for(self.request.user, self.row)
        may_edit = may_change(self.request.user, self.row)
        is_view = self.row.materialization == TargetDataset.Materialization.VIEW
        return super().context() | {
            "profile": profile,
            "question": {"kind": PROFILE} if profile is None or "refresh" in self.request.GET else None,
            "may_edit": may_edit,
            "suggestions": suggestions_for(self.row, profile)
            if profile is not None and may_edit and not is_view
            else [],
        }


class SuggestionAccept(Editing, DatasetPage, ButtonPage):
    """Button that creates a suggested check."""

    def act(self) -> str:
        wanted = self.request.POST.get("suggestion", "")
        profile = profile_for(self.request.user, self.row)
        offered = suggestions_for(self.row, profile) if profile is not None else []
        chosen = next((suggestion for suggestion in offered if suggestion.key == wanted), None)
        if chosen is None:
            raise Http404("this check is not suggested")
        check = create_check(dataset=self.row, name=chosen.name, kind=chosen.kind, arguments=chosen.arguments)
        self.request.session[NEW_CHECK] = str(check.key)
        messages.success(self.request, f"Check {check.name} created. Each load runs it.")
        return quality_page(check)


class DatasetQuarantine(MaintainedPage, RequestPage):
    """Quarantined rows of a dataset, with the form that releases or drops them."""

    form_class, template_name, view = QuarantineForm, "loader/quality/dataset_quarantine.html", "quarantine"

    def options(self) -> dict[str, Any]:  # type: ignore[override]  # pages do not answer OPTIONS
        return {"releasable": self.row.schema.layer != TargetSchema.Layer.RAW}

    def context(self) -> dict[str, Any]:
        return super().context() | {"question": {"kind": QUARANTINED}}

    def request_run(self, form: QuarantineForm) -> Any:
        return request_quarantine(dataset=str(self.described), user=self.request.user, **form.given())

    def show(self, form: QuarantineForm, *, status: int = 200) -> HttpResponse:
        return self.render(form=form, status=status)
