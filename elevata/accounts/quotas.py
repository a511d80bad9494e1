"""Limits that a user and their service accounts share."""

from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Q

from elevata.accounts.models import ServiceAccount


def shared_rows(user: Any, field: str) -> Q:
    """Return the condition for rows of the user, the owner of a service account included. Call in a transaction.

    ``field`` is the key to the user. Requests of one user wait for each other here, so that none is counted too late.
    """
    owner = ServiceAccount.objects.filter(user_id=user.pk).values_list("owner_id", flat=True).first() or user.pk
    get_user_model().objects.select_for_update(no_key=True).get(pk=owner)
    return Q(**{field: owner}) | Q(**{f"{field}__service_account__owner": owner})
