"""Addresses, requests and answers of the pages of a dataset's data."""

from django.contrib.auth.models import User
from django.test import Client

from architecture.domain.tables import TableSpec, history_table, raw_table, rawcore_table
from loader.models import ReadRequest
from metadata.models import TargetDataset
from metadata.selectors.dataset_states import dataset_state
from tests.elevata.web.html import html_of
from tests.loader.factories import ReadRequestFactory

KEY = "a" * 64
LONG = "a long name " * 20


def table_of(dataset: TargetDataset, kind: str) -> TableSpec:
    state = dataset_state(dataset)
    if state.layer == "raw":
        return raw_table(state)
    return rawcore_table(state) if kind in ("sample", "export") else history_table(state)


def answered_read(dataset: TargetDataset, person: User, kind: str, *rows: dict, **answer: object) -> ReadRequest:
    """Create a read that succeeded with these rows."""
    columns = [column.name for column in table_of(dataset, kind).columns]
    plain = {"rc_air_airport_key": KEY, "load_run_id": "good"}
    values = [[({**plain, **row}).get(name) for name in columns] for row in rows]
    content = {"table_version": 7, "columns": columns, "rows": values, "truncated": False, **answer}
    return ReadRequestFactory(dataset=dataset, requested_by=person, kind=kind, status="succeeded", answer=content)


def part(client: Client, made: ReadRequest) -> str:
    return html_of(client.get(f"/reads/{made.pk}/", headers={"HX-Request": "true"}))


def data(dataset: TargetDataset, part: str = "") -> str:
    return f"/datasets/{dataset.key}/data/{part}"


def ask(client: Client, dataset: TargetDataset, *, script: bool = True, **question: str):
    headers = {"HX-Request": "true"} if script else {}
    return client.post(f"/datasets/{dataset.key}/reads/", question, headers=headers)
