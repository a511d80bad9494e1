"""History explorer: keys, the versions of one key, and the table as of a time.

A page has only a form, which requests a read (``reads``).
"""

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.utils import timezone

from elevata.web.views import DetailPage
from loader.domain.queries.answers import COMPARE
from loader.domain.queries.comparison import DATES, ENVIRONMENTS, VERSIONS, WAYS
from loader.forms.reads import AsOfForm, ComparisonForm
from loader.selectors.loads import load_times, table_versions
from loader.services.reads.read_permissions import other_environments
from loader.views.datasets.datasets import DataPage, HistoryDataPage, history_of
from loader.views.datasets.reads import dated_by_number, is_dated_by_number


class DatasetHistory(HistoryDataPage):
    """Page of the keys that begin with a text; without a text, of the first keys."""

    template_name, view = "loader/queries/history_keys.html", "keys"

    def context(self) -> dict[str, Any]:
        text = self.request.GET.get("q", "").strip()[:200]
        return super().context() | {"text": text, "question": {"kind": "key_search", "text": text}}


class DatasetVersions(HistoryDataPage):
    """Page of the versions of one key."""

    template_name, view = "loader/queries/history_versions.html", "versions"

    def context(self) -> dict[str, Any]:
        entity_key = self.kwargs["entity_key"]
        question = {"kind": "versions", "entity_key": entity_key}
        return super().context() | {"entity_key": entity_key, "question": question}


class DatasetAsOf(HistoryDataPage):
    """Page of the table as of a time, optionally as known at another time."""

    template_name, view = "loader/queries/history_as_of.html", "as_of"

    def context(self) -> dict[str, Any]:
        table = history_of(self.row)
        by_number = table is not None and is_dated_by_number(table)
        columns = [column.name for column in table.columns] if table is not None else []
        form = AsOfForm(self.request.GET or None, by_number=by_number, columns=columns)
        values = form.cleaned_data if form.is_bound and form.is_valid() else None
        runs = [] if by_number else load_times(self.row)
        return super().context() | {
            "form": form,
            "asked": values,
            "kept": urlencode(form.question),
            "question": _as_of_question(values) | form.question if values else None,
            "by_number": by_number,
            "now": timezone.now(),
            "moments": [(run, _round_up_second(run.load_timestamp)) for run in runs],
        }


class DatasetCompare(DataPage, DetailPage):
    """Page of the difference between two dates, two table versions or two environments of a dataset."""

    template_name, view = "loader/queries/data_compare.html", COMPARE

    def context(self) -> dict[str, Any]:
        by_number = dated_by_number(self.row)
        versions, environments = table_versions(self.row), other_environments(self.request.user, self.row)
        offered = {
            DATES: bool(self.row.historize or self.row.history_of_id),
            VERSIONS: len(versions) > 1,
            ENVIRONMENTS: bool(environments),
        }
        ways = {way: label for way, label in WAYS.items() if offered[way]}
        by = self.request.GET.get("by", "")
        by = by if by in ways else next(iter(ways), "")
        sides = {"base", "other"} & set(self.request.GET)
        initial = {"base": versions[1][0], "other": versions[0][0]} if by == VERSIONS else {}
        form = ComparisonForm(
            self.request.GET if sides else None,
            initial=initial,
            by=by or VERSIONS,
            by_number=by_number,
            versions=versions,
            environments=environments,
        )
        question = {"kind": COMPARE, "by": by} | form.sides if form.is_bound and form.is_valid() else None
        return super().context() | {"form": form, "ways": ways, "by": by, "question": question}


def _as_of_question(values: dict) -> dict[str, str]:
    """Return the fields of the read that the page requests; times are UTC."""
    known = {"known_at": f"{values['known_at']:%Y-%m-%dT%H:%M:%S}"} if values["known_at"] else {}
    at = values["at"] if isinstance(values["at"], int) else f"{values['at']:%Y-%m-%dT%H:%M:%S}"
    return {"kind": "as_of", "at": str(at), **known}


def _round_up_second(instant: datetime) -> datetime:
    """Return the time rounded up to a second, because the form's field has no fractions."""
    return instant if instant.microsecond == 0 else instant.replace(microsecond=0) + timedelta(seconds=1)
