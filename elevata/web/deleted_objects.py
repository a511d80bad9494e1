"""Deleted objects by the address they had, according to the change log."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode
from uuid import UUID

from django.db import DatabaseError
from django.http import HttpRequest
from django.urls import reverse

from metadata.change_log import entries
from metadata.models import ChangeLogEntry, SourceDataset, TargetDataset

DELETED = ChangeLogEntry.Action.DELETED
# Kinds that have pages, with the list of those that are there: by stable key, and by name.
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
    """``went_with``: the dataset whose deletion took it along. ``log``, ``part_of``, ``others``: the ways on."""

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
    """Return the deleted object that the request's address belonged to; None for users who are not signed in."""
    match = request.resolver_match
    named = [str(match.kwargs[name]) for name in ("key", "name") if name in match.kwargs] if match else []
    try:
        if not named or not request.user.is_authenticated:
            return None
        return _gone(named)
    except DatabaseError:
        # The page that says "not found" is shown all the same.
        return None


def _gone(keys: Iterable[str]) -> Gone | None:
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
    """The entry that tells of a dataset's deletion, if that is the last thing that happened to it."""
    kinds = ("dataset", "source_dataset")
    last = entries().filter(subject_kind__in=kinds, subject_key=str(dataset_key)).first()
    return last if last is not None and last.action == DELETED else None


def _page_of(dataset_key: UUID | None) -> str:
    if TargetDataset.objects.filter(key=dataset_key).exists():
        return reverse("dataset_page", args=[dataset_key])
    if SourceDataset.objects.filter(key=dataset_key).exists():
        return reverse("source_page", args=[dataset_key])
    return ""
