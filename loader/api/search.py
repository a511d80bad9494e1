"""Search that also covers reports, load runs and schedules."""

from django.db.models import Q

from architecture.models import ChangeReport
from loader.models import LoadRun, Schedule
from metadata.api import search
from metadata.search import Kind

_REPORT = Kind(
    "report",
    lambda: ChangeReport.objects.select_related("environment").defer("document", "content"),
    lambda text: Q(scope__name__icontains=text) | Q(fingerprint__istartswith=text),
    lambda row: str(row.report_id),
    lambda row: row.environment.name,
    called="fingerprint",
)
_RUN = Kind(
    "load_run",
    lambda: LoadRun.objects.all(),
    lambda text: Q(run_id__icontains=text),
    lambda row: row.run_id,
    called="run_id",
)
_SCHEDULE = Kind(
    "schedule",
    lambda: Schedule.objects.select_related("environment"),
    lambda text: Q(name__icontains=text),
    lambda row: str(row.key),
    lambda row: row.environment.name,
)


class SearchViewSet(search.SearchViewSet):
    __doc__ = search.SearchViewSet.__doc__

    kinds = {
        **search.SearchViewSet.kinds,
        **{kind.name: (kind, f"api-{kind.name.replace('_', '-')}-detail") for kind in (_REPORT, _RUN, _SCHEDULE)},
    }
