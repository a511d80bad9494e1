"""Audit tables, and the abstract model with an optimistic lock."""

from typing import Any, ClassVar, NoReturn

from django.conf import settings
from django.db import models

from elevata.audit.hash_chain import ChainKind
from elevata.core.errors import MetadataError


class AppendOnlyQuerySet(models.QuerySet):
    """Query set that refuses updates and deletes before any SQL."""

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        message = "is append-only: rows are never changed or removed"
        raise MetadataError("append_only", message, where=str(self.model._meta.verbose_name))

    _refuse.alters_data = True  # type: ignore[attr-defined]  # templates must not call it
    update = delete = bulk_update = update_or_create = _raw_delete = _update = _refuse


class AppendOnly(models.Model):
    """Base of rows that are never changed. Triggers enforce it in SQL (``elevata.audit.append_only``).

    A model with ``CHAIN`` is part of the hash chain. Its ``content()`` returns the value whose canonical JSON is
    hashed; it is equal before a row is written and after it is read again.
    """

    CHAIN: ClassVar[ChainKind | None] = None

    objects = AppendOnlyQuerySet.as_manager()

    class Meta:
        abstract = True
        base_manager_name = "objects"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            type(self).objects.all()._refuse()
        super().save(*args, **{**kwargs, "force_insert": True})

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        type(self).objects.all()._refuse()

    def content(self) -> dict[str, Any]:
        """Return the value whose canonical JSON is hashed; models of the chain define it."""
        raise NotImplementedError


class ChangeLogEntry(AppendOnly):
    """Change of one object: actor, time, action, values before and after.

    ``subject_key`` is the stable key, or the short name of an object without one; ``dataset_key`` is the dataset it
    belongs to (a history's base, a reference's child). ``changes`` is canonical JSON, ``{field: {"before",
    "after"}}``, without empty values.
    """

    CHAIN = ChainKind("change", removable=True)

    class Action(models.TextChoices):
        CREATED = "created", "Created"
        CHANGED = "changed", "Changed"
        RENAMED = "renamed", "Renamed"
        RETIRED = "retired", "Retired"
        RESTORED = "restored", "Restored"
        DELETED = "deleted", "Deleted"

    class ActorKind(models.TextChoices):
        PERSON = "person", "Person"
        TOKEN = "token", "Token"
        SYSTEM = "system", "System"

    at = models.DateTimeField()
    actor = models.CharField(max_length=150)
    actor_kind = models.CharField(max_length=10, choices=ActorKind)
    # PROTECT: users in the log are deactivated, not deleted.
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    action = models.CharField(max_length=30)
    subject_kind = models.CharField(max_length=30)
    subject_key = models.CharField(max_length=200)
    subject_name = models.TextField()
    dataset_key = models.UUIDField(null=True)
    changes = models.TextField()
    reason = models.TextField(blank=True, default="")
    request_id = models.CharField(max_length=100, blank=True, default="")

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["dataset_key", "id"], name="change_of_dataset"),
            models.Index(fields=["subject_kind", "subject_key", "id"], name="change_of_subject"),
            # Some queries have a key only; every page of the log queries its actors.
            models.Index(fields=["subject_key", "id"], name="change_of_key"),
            models.Index(fields=["actor", "id"], name="change_of_actor"),
            # An undo reads the entries of one transaction by their time.
            models.Index(fields=["at"], name="change_at"),
        ]

    def __str__(self) -> str:
        return f"{self.subject_kind} {self.subject_name} {self.action} by {self.actor}"

    def content(self) -> dict[str, Any]:
        """Return the content that the chain's digest covers: every column, with the id."""
        return {
            "id": self.pk,
            "at": self.at.isoformat(timespec="microseconds"),
            "actor": self.actor,
            "actor_kind": str(self.actor_kind),
            "user": self.user_id,
            "action": str(self.action),
            "subject_kind": self.subject_kind,
            "subject_key": self.subject_key,
            "subject_name": self.subject_name,
            "dataset_key": str(self.dataset_key) if self.dataset_key else None,
            "changes": self.changes,
            "reason": self.reason,
            "request_id": self.request_id,
        }


class ChainLink(AppendOnly):
    """One link of the hash chain (``elevata.audit.hash_chain``).

    ``signature`` is over the hash, by the audit key with this id (``elevata.audit.services.chain``).
    """

    sequence = models.BigIntegerField(primary_key=True)
    kind = models.CharField(max_length=30)
    subject_id = models.BigIntegerField()
    digest = models.CharField(max_length=64)
    previous = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)
    sealed_at = models.DateTimeField()
    key_id = models.CharField(max_length=16, default="")
    signature = models.CharField(max_length=64, default="")

    class Meta:
        ordering = ["sequence"]
        constraints = [models.UniqueConstraint(fields=["kind", "subject_id"], name="chain_link_once")]

    def __str__(self) -> str:
        return f"link {self.sequence}: {self.kind} {self.subject_id}"


class ChainHead(models.Model):
    """End of the chain: one row, which the sealing process locks."""

    sequence = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"head of the chain at {self.sequence}"


class ChainPending(models.Model):
    """Pending record: rows of one transaction that are not linked yet. ``subjects`` is [[id, digest], …].

    The process that wrote the rows signs it. ``refused`` is the code of the problem for which it was not sealed.
    """

    kind = models.CharField(max_length=30)
    subjects = models.JSONField()
    key_id = models.CharField(max_length=16, default="")
    signature = models.CharField(max_length=64, default="")
    refused = models.CharField(max_length=30, blank=True, default="")

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{len(self.subjects)} of {self.kind} to be linked"


class AuditSegment(AppendOnly):
    """Links whose change-log entries were exported to a file and removed from the database.

    The links ``first`` to ``last`` stay; ``head`` is the hash of the last one. ``rows`` is the number of removed
    entries, ``file`` and ``digest`` (SHA-256 of all its bytes) identify the export. Segments are contiguous from the
    chain's first link on, and each is itself a row of the chain.
    """

    CHAIN = ChainKind("segment")

    first = models.BigIntegerField(unique=True)
    last = models.BigIntegerField(unique=True)
    head = models.CharField(max_length=64)
    rows = models.PositiveBigIntegerField()
    file = models.CharField(max_length=255)
    digest = models.CharField(max_length=64)
    removed_at = models.DateTimeField()
    actor = models.CharField(max_length=150)
    actor_kind = models.CharField(max_length=10, choices=ChangeLogEntry.ActorKind)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    reason = models.TextField()
    request_id = models.CharField(max_length=100, blank=True, default="")

    class Meta(AppendOnly.Meta):
        ordering = ["first"]
        constraints = [
            models.CheckConstraint(
                name="audit_segment_is_a_range", condition=models.Q(first__gte=1, last__gte=models.F("first"))
            )
        ]

    def __str__(self) -> str:
        return f"links {self.first} to {self.last}"

    def content(self) -> dict[str, Any]:
        """Return the content that the chain's digest covers: every column."""
        return {
            "id": self.pk,
            "first": self.first,
            "last": self.last,
            "head": self.head,
            "rows": self.rows,
            "file": self.file,
            "file_digest": self.digest,
            "at": self.removed_at.isoformat(timespec="microseconds"),
            "actor": self.actor,
            "actor_kind": str(self.actor_kind),
            "user": self.user_id,
            "reason": self.reason,
            "request_id": self.request_id,
        }


class RowSeal(models.Model):
    """Signed digests of a logged row, as the product last wrote it (``elevata.audit.services.row_seals``).

    ``table`` and ``row_id`` identify the row. ``digest`` is over its values, ``parts`` over the rows that belong to it,
    and ``entry_id`` is the last change-log entry of the transaction that wrote them. ``signature`` is over all of
    these, by the audit key.
    """

    table = models.CharField(max_length=63)
    row_id = models.BigIntegerField()
    digest = models.CharField(max_length=64)
    parts = models.CharField(max_length=64)
    entry_id = models.BigIntegerField()
    signature = models.CharField(max_length=81)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["table", "row_id"], name="row_seal_once")]

    def __str__(self) -> str:
        return f"seal of {self.table} {self.row_id}"


class Versioned(models.Model):
    """Base of rows with an optimistic lock: every write increases ``version`` by one.

    ``LOG_KIND`` is the kind of the rows in the change log, and ``LOG_KEY`` the field that identifies them there.
    """

    LOG_KIND: ClassVar[str] = ""
    LOG_KEY: ClassVar[str] = "key"

    version = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True
