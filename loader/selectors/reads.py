"""Read requests, trials and saved queries of a user."""

from typing import Any
from uuid import UUID

from django.db.models import (
    Q,
    QuerySet,
)
from django.urls import reverse

from elevata.web.subjects import Subject
from loader.models import ReadRequest, SavedQuery


def read_requests() -> QuerySet[ReadRequest]:
    return ReadRequest.objects.select_related("dataset__schema", "environment")


def queries_of(user: Any) -> QuerySet[ReadRequest]:
    """Return the SQL queries that a user ran on the page or by the API."""
    return read_requests().filter(requested_by=user, kind="sql")


def trials_of(user: Any) -> QuerySet[ReadRequest]:
    """Return the trials of models that a user requested."""
    return read_requests().filter(requested_by=user, kind="try_model")


def saved_queries(user: Any) -> QuerySet[SavedQuery]:
    """Return the user's saved queries and the shared ones of others, by name."""
    queries = SavedQuery.objects.filter(Q(owner=user.pk) | Q(shared=True))
    return queries.select_related("owner").order_by("name", "pk")


def saved_query_subject(key: UUID) -> Subject | None:
    """Return the saved query with this key as a subject of favourites; None if there is none."""
    saved = SavedQuery.objects.filter(key=key).first()
    if saved is None:
        return None
    return Subject("saved_query", key, f"the query {saved}", f"{reverse('sql_page')}?saved={key}")
