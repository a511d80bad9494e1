"""Change log pages: the whole log, its export, and a dataset's part."""

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.views.decorators.http import require_safe

from elevata.audit.models import ChangeLogEntry
from elevata.audit.selectors import actors, entries, kinds, of_keys
from elevata.audit.services.exports import selection
from elevata.lists.columns import Column
from elevata.web.list_pages import ListPage
from metadata.api.changes import exported
from metadata.filtersets import ChangeFilter, ChangeListFilter
from metadata.models import TargetDataset
from metadata.selectors.change_log import ShownEntry, shown_entries
from metadata.selectors.datasets import target_datasets
from metadata.views.base import DatasetPage

SUGGESTED = 500
COLUMNS = (
    Column("When", {"at": "entry.at"}, sort="at", descends=True),
    Column("Who", {"by": "entry.actor", "by kind": "entry.actor_kind"}, sort="actor"),
    Column(
        "What",
        {
            "action": "entry.action",
            "kind": "entry.subject_kind",
            "subject": "entry.subject_name",
            "reason": "entry.reason",
        },
        sort="subject",
    ),
    Column("From → to", {"changes": "entry.changes"}),
)


class ChangeList(ListPage):
    """Entries of the change log, newest first."""

    filterset, template_name = ChangeListFilter, "architecture/change_list.html"
    columns, file_name = COLUMNS, "changes"
    listed = staticmethod(entries)

    def detailed(self, rows: Sequence[Any]) -> list[ShownEntry]:
        return shown_entries(rows)

    def context(self) -> dict[str, Any]:
        names = target_datasets().filter(history_of__isnull=True).order_by("schema__name", "name")
        return super().context() | {
            "tab": "changes",
            "shown": self.detailed_page,
            "actors": actors(),
            "kinds": kinds(),
            "dataset_names": names.values_list("schema__name", "name")[:SUGGESTED],
        }


class DatasetChanges(DatasetPage, ListPage):
    """Entries about a dataset, its history, its columns and its references, newest first."""

    filterset, template_name = ChangeListFilter, "metadata/dataset_changes.html"
    columns, file_name = COLUMNS, "changes"

    def detailed(self, rows: Sequence[Any]) -> list[ShownEntry]:
        return shown_entries(rows)

    @property
    def described(self) -> TargetDataset:
        return self.row.history_of or self.row

    def listed(self) -> QuerySet[ChangeLogEntry]:
        return entries().filter(of_keys([self.described.key]))

    def context(self) -> dict[str, Any]:
        return super().context() | {
            "shown": self.detailed_page,
            "actors": actors(self.listed()),
            "kinds": kinds(self.listed()),
            "actions": [(value, label.lower()) for value, label in ChangeLogEntry.Action.choices],
            "former": _former_names(self.row, self.described),
        }


def _former_names(dataset: TargetDataset, described: TargetDataset) -> list[tuple[str, str]]:
    """Return former names with current names: of the dataset first, then of its columns."""
    columns = described.columns.order_by("ordinal", "id").values_list("name", "former_names")
    own = [(name, dataset.name) for name in reversed(dataset.former_names)]
    return own + [(former, name) for name, formers in columns for former in reversed(formers)]


@require_safe
def change_file(request: HttpRequest) -> HttpResponseBase:
    """Return the entries that fit the list's filters as a file that ``verify_export`` takes."""
    chosen = ChangeFilter(request.GET, queryset=entries())
    if not chosen.is_valid():
        return HttpResponse("These filters can't be read.\n", status=400, content_type="text/plain")
    filters = {name: value for name in ChangeFilter.base_filters if (value := request.GET.get(name))}
    return exported(selection(chosen.qs, filters))
