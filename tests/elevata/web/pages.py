"""Helpers for pages of architecture control: signed-in clients, text of pages, and edits by Ada."""

import csv
import io
import re
from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from architecture.models import ChangeReport
from elevata.accounts.actors import acting_as
from metadata.models import TargetColumn
from metadata.services.datasets.targets import update_target_column
from metadata.services.lifecycle import rename_column
from tests.architecture.world import World, put_policy_in_force
from tests.elevata.web.html import html_of


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def words(html: str) -> str:
    """Return the visible text of the page without tags."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def read(client: Client, address: str, status: int = 200) -> str:
    answer = client.get(address)
    assert answer.status_code == status
    return html_of(answer)


def downloaded(client: Client, address: str) -> list[dict[str, str]]:
    """Return the rows of the CSV file of a list, which is streamed."""
    answer = client.get(address)
    assert answer.status_code == 200
    assert answer.streaming
    return list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode(), newline="")))


def section(html: str, name: str) -> str:
    """Return the section of a page with this id."""
    start = html.index(f'id="{name}"')
    return html[start : html.index("</section>", start)]


def change(world: World, name: str, **changes: Any) -> TargetColumn:
    """Edit a column as Ada."""
    column = TargetColumn.objects.get(name=name)
    with acting_as(world.author):
        return update_target_column(column=column, expected_version=column.version, **changes)


def rename(world: World, name: str, to: str) -> None:
    column = TargetColumn.objects.get(name=name)
    with acting_as(world.author):
        rename_column(column=column, name=to, expected_version=column.version)


def needing(world: World, **approvals: int) -> None:
    """Require this number of approvals by risk in the environment."""
    chosen = {"approvals": {risk: {"count": count} for risk, count in approvals.items()}}
    put_policy_in_force(world.environment, chosen)


def address(report: ChangeReport, part: str = "") -> str:
    return f"/reports/{report.report_id}/{part}"
