"""States of a statement that a user runs on a page: waiting, refused, or answered.

The SQL page and the trials of models share them; each polls its own route for the answer.
"""

from collections.abc import Collection, Mapping
from typing import Any

from django.urls import reverse
from django.utils import timezone

from elevata.jobs.registry import live_workers
from loader.models import ReadRequest
from loader.views.datasets.differences import cells
from loader.views.datasets.reads import GIVE_UP_AFTER

REFUSED = "loader/queries/sql_refused.html"


def seen(read: ReadRequest) -> str:
    """Return the state that a page shows for an unfinished read; a poll with the same state needs no new fragment."""
    return f"{read.status}-{'alive' if live_workers() else 'alone'}"


def waiting(read: ReadRequest, what: str, poll: str, cancel: str = "", notice: str = "") -> tuple[str, dict[str, Any]]:
    """Return the template of an unfinished read, with its context.

    Args:
        read: The read.
        what: The word for the statement: query, trial.
        poll: Name of the route that shows the answer.
        cancel: Name of the route that cancels the read, if there is one.
        notice: Why the broker did not take the request.
    """
    return "loader/queries/sql_waiting.html", {
        "read": read,
        "what": what,
        "poll": reverse(poll, args=[read.pk]),
        "cancel": reverse(cancel, args=[read.pk]) if cancel else "",
        "seen": seen(read),
        "alone": not live_workers(),
        "late": timezone.now() - read.requested_at > GIVE_UP_AFTER,
        "notice": notice,
    }


def answered(read: ReadRequest) -> dict[str, Any]:
    """Return the rows of an answer as a page shows them, and the columns that are masked or hidden from the user."""
    answer = read.answer or {}
    return {
        "read": read,
        "headings": headings(answer, answer["masked"]),
        "rows": [cells(row) for row in answer["rows"]],
        "hidden": [f"{name}.{column}" for name, columns in answer["hidden"].items() for column in columns],
        "truncated": answer["truncated"],
    }


def headings(answer: Mapping[str, Any], masked: Collection[str]) -> list[dict[str, Any]]:
    """Return the headings of the rows of an answer."""
    types = answer.get("types") or [""] * len(answer["columns"])
    return [
        {"name": name, "type": type_, "masked": name in masked}
        for name, type_ in zip(answer["columns"], types, strict=True)
    ]
