"""Pages of deleted objects, found in the change log by the address that they had."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode
from uuid import UUID

from django.db import DatabaseError
from django.http import HttpRequest
from django.urls import reverse

from elevata.audit.models import ChangeLogEntry
from elevata.audit.selectors import entries
from metadata.models import SourceDataset, TargetDataset

DELETED = ChangeLogEntry.Action.DELETED
# Kinds of objects that have pages, with the list of existing objects: its route and its label.
_LISTS = {
    "dataset": ("dataset_list", "All datasets"),
    "column": ("dataset_list", "All datasets"),
    "source_dataset": ("source_list", "All sources"),
    "source_column": ("source_list", "All sources"),
    "schedule": ("schedule_list", "All schedules"),
    "schema": ("schema_list", "All schemas"),
    "system": ("source_list", "All sources"),
}


@dataclass(frozen=True)
class Gone:
    """Deleted object. ``went_with`` names the dataset with which it was deleted.

    ``log``, ``part_of`` and ``others`` are addresses of the change log, of its dataset and of the list of its kind.
    """

    kind: str
    name: str
    by: str
    at: datetime
    reason: str
    went_with: str
    log: str
    part_of: str
    others: str
    others_called: str


def what_is_gone(request: HttpRequest) -> Gone | None:
    """Return the deleted object that had the request's address; None for users who are not signed in."""
    match = request.resolver_match
    keys = [str(match.kwargs[name]) for name in ("key", "name") if name in match.kwargs] if match else []
    try:
        if not keys or not request.user.is_authenticated:
            return None
        return _deleted_object(keys)
    except DatabaseError:
        # The page "Not found" is shown without the deleted object.
        return None


def _deleted_object(keys: Iterable[str]) -> Gone | None:
    last = entries().filter(subject_kind__in=_LISTS, subject_key__in=list(keys)).first()
    if last is None:
        return None
    deletion = last if last.action == DELETED else _deletion_of(last.dataset_key)
    if deletion is None:
        return None
    others, called = _LISTS[last.subject_kind]
    return Gone(
        kind=last.subject_kind,
        name=last.subject_name,
        by=deletion.actor,
        at=deletion.at,
        reason=deletion.reason,
        went_with=deletion.subject_name if deletion is not last else "",
        log=f"{reverse('change_list')}?{urlencode({'q': deletion.subject_name})}",
        part_of=_page_of(last.dataset_key),
        others=reverse(others),
        others_called=called,
    )


def _deletion_of(dataset_key: UUID | None) -> ChangeLogEntry | None:
    """Return the entry of a dataset's deletion, if it is the dataset's newest entry."""
    kinds = ("dataset", "source_dataset")
    last = entries().filter(subject_kind__in=kinds, subject_key=str(dataset_key)).first()
    return last if last is not None and last.action == DELETED else None


def _page_of(dataset_key: UUID | None) -> str:
    if dataset_key is None:
        return ""
    if TargetDataset.objects.filter(key=dataset_key).exists():
        return reverse("dataset_page", args=[dataset_key])
    if SourceDataset.objects.filter(key=dataset_key).exists():
        return reverse("source_page", args=[dataset_key])
    return ""
