"""Helpers for tests of the grid, the form and pasting of the columns of airports."""

from django.http import HttpResponse
from django.test import Client

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from metadata.models import TargetColumn
from metadata.services.datasets.targets import update_target_column
from tests.architecture.world import person as someone

HTMX = {"HX-Request": "true"}


def column(name: str, dataset: str = "rc_air_airport") -> TargetColumn:
    return TargetColumn.objects.get(dataset__name=dataset, name=name)


def by_bob(name: str, **changes: object) -> None:
    """Change the column as another user, bob."""
    row = column(name)
    with acting_as(someone("bob", Role.EDITOR)):
        update_target_column(column=row, expected_version=row.version, **changes)


def cell(client: Client, name: str, value: str, *, of: str = "name", version: int | None = None) -> HttpResponse:
    row = column(of)
    data = {"cell": name, "value": value, "version": row.version if version is None else version}
    return client.post(f"/columns/{row.key}/cell/", data, headers=HTMX)


def order() -> list[str]:
    rows = TargetColumn.objects.filter(dataset__name="rc_air_airport", active=True).order_by("ordinal", "id")
    return list(rows.values_list("name", flat=True))
