"""Saved queries: created, replaced and deleted by their owner."""

from typing import Any

from elevata.audit.services.change_log import assign, record_change, writing
from elevata.core.errors import MetadataError
from loader.models import SavedQuery
from metadata.domain.select_check import MAX_LENGTH
from metadata.services.rows.row_changes import remove, store

FIELDS = ("name", "text", "shared")


def save_query(*, owner: Any, name: str, text: str, shared: bool = False) -> SavedQuery:
    """Save a query under a name; the owner's query of that name is replaced. Raise MetadataError."""
    name = name.strip()
    if not name or len(name) > 100:
        raise MetadataError("bad_name", "a query needs a name of up to 100 characters", "name")
    if not text.strip() or len(text) > MAX_LENGTH:
        raise MetadataError("bad_query", f"a query needs a text of up to {MAX_LENGTH} characters", "text")
    with writing():
        saved = SavedQuery.objects.select_for_update().filter(owner=owner, name=name).first()
        before = None if saved is None else told(saved)
        saved = saved or SavedQuery(owner=owner)
        assign(saved, {"name": name, "text": text, "shared": shared}, FIELDS)
        store(saved)
        _log("created" if before is None else "changed", saved, before=before, after=told(saved))
        return saved


def delete_query(*, saved: SavedQuery) -> None:
    """Delete a saved query."""
    with writing():
        _log("deleted", saved, before=told(saved))
        remove([saved])


def told(saved: SavedQuery) -> dict[str, Any]:
    return {name: getattr(saved, name) for name in FIELDS} | {"owner": saved.owner.get_username()}


def _log(action: str, saved: SavedQuery, **sides: Any) -> None:
    record_change(action=action, subject_kind="query", subject_key=str(saved.key), subject_name=saved.name, **sides)
