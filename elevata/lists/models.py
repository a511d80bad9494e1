"""Saved filters and chosen columns of lists, and favourites: settings of a user."""

import uuid

from django.conf import settings
from django.db import models


class SavedFilter(models.Model):
    """Filter of a list that a user saved under a name; a shared one is offered to every user of the list.

    ``route`` is the list's, ``query`` the query string of its address.
    """

    key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    route = models.CharField(max_length=60)
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=2000)
    shared = models.BooleanField(default=False)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name", "id"]
        indexes = [models.Index(fields=["route"], condition=models.Q(shared=True), name="saved_filter_shared")]
        constraints = [models.UniqueConstraint(fields=["owner", "route", "name"], name="saved_filter_named_once")]

    def __str__(self) -> str:
        return self.name


class ChosenColumns(models.Model):
    """Columns of a list that a user chose, by their labels; without a row, the list's own choice applies."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    route = models.CharField(max_length=60)
    labels = models.JSONField(default=list)

    class Meta:
        ordering = ["route"]
        constraints = [models.UniqueConstraint(fields=["user", "route"], name="columns_chosen_once")]

    def __str__(self) -> str:
        return f"columns of {self.route} for {self.user}"


class Favourite(models.Model):
    """Subject that a user marked as a favourite, by kind and key (setting ``SUBJECTS``)."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    subject_kind = models.CharField(max_length=20)
    subject_key = models.UUIDField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["user", "subject_kind", "subject_key"], name="favourite_once")]

    def __str__(self) -> str:
        return f"{self.subject_kind} {self.subject_key} of {self.user}"
