"""Writes of saved filters, chosen columns and favourites: settings of a user, without entries in the change log."""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from elevata.accounts.permissions import must_write
from elevata.audit.services.transactions import check_fields, writing
from elevata.core.errors import MetadataError
from elevata.lists.columns import shown_labels
from elevata.lists.models import ChosenColumns, Favourite, SavedFilter
from elevata.lists.selectors import filtered_lists, filters_of
from elevata.web.subjects import favourite_of

MAX_FILTERS, MAX_FAVOURITES = 100, 1_000


def save_filter(*, owner: Any, route: str, name: str, query: str, shared: bool = False) -> SavedFilter:
    """Save the filters of a list under a name; the owner's saved filter of that name is replaced.

    ``query`` is the query string of the list's address, of which filters and order are saved. Raises MetadataError
    ``unknown_list``, ``invalid`` or ``too_many``.
    """
    _must_be_list(route)
    name, filters = name.strip(), filters_of(route, query)
    if not name:
        raise MetadataError("invalid", "needs a name", "name")
    if not filters:
        raise MetadataError("invalid", "has nothing to save: choose a filter or an order first", "query")
    with writing():
        saved = SavedFilter.objects.select_for_update().filter(owner=owner, route=route, name=name).first()
        if saved is None and SavedFilter.objects.filter(owner=owner).count() >= MAX_FILTERS:
            raise MetadataError("too_many", f"you have {MAX_FILTERS} saved filters already; delete one first")
        saved = saved or SavedFilter(owner=owner, route=route, name=name)
        saved.query, saved.shared = filters, shared
        check_fields(saved, name)
        saved.save()
        return saved


def delete_filter(*, saved: SavedFilter) -> None:
    """Delete a saved filter."""
    with writing():
        saved.delete()


def choose_columns(*, user: Any, route: str, labels: Collection[str] | None) -> None:
    """Choose the columns of a list by their labels; None for the list's own choice.

    Raises MetadataError ``unknown_list`` or ``unknown_column``.
    """
    columns = _must_be_list(route).columns
    unknown = sorted(set(labels or ()) - {column.label for column in columns})
    if unknown:
        raise MetadataError("unknown_column", f"there is no column {unknown[0]}", "columns")
    with writing():
        if labels is None:
            ChosenColumns.objects.filter(user=user, route=route).delete()
        else:
            values = {"labels": shown_labels(columns, labels)}
            ChosenColumns.objects.update_or_create(user=user, route=route, defaults=values)


def set_favourite(*, user: Any, subject_kind: str, subject_key: UUID) -> Favourite:
    """Mark a subject as a favourite of the user. Raise MetadataError ``unknown_subject`` or ``too_many``."""
    subject = favourite_of(subject_kind, subject_key)
    with writing():
        if Favourite.objects.filter(user=user).count() >= MAX_FAVOURITES:
            raise MetadataError("too_many", f"you have {MAX_FAVOURITES:,} favourites already")
        return Favourite.objects.get_or_create(user=user, subject_kind=subject.kind, subject_key=subject.key)[0]


def unset_favourite(*, user: Any, subject_kind: str, subject_key: UUID) -> None:
    """Remove a subject from the user's favourites, if it is one."""
    with writing():
        Favourite.objects.filter(user=user, subject_kind=subject_kind, subject_key=subject_key).delete()


def delete_favourites_of(*, kind: str, keys: Collection[UUID]) -> None:
    """Delete the favourites of subjects that are deleted, in the same transaction."""
    Favourite.objects.filter(subject_kind=kind, subject_key__in=keys).delete()


def _must_be_list(route: str) -> Any:
    must_write()
    view = filtered_lists().get(route)
    if view is None:
        raise MetadataError("unknown_list", f"there is no list {route} with filters", "route")
    return view
