"""SQL queries by REST: accepted, answered by a worker, fetched as JSON, CSV and Parquet."""

import io
from decimal import Decimal

import pyarrow.parquet as pq
import pytest
from django.test import Client

from architecture.services.environments import current_environment
from architecture.services.states import write_applied
from loader.models import ReadRequest
from metadata.models import TargetDataset
from metadata.selectors.dataset_states import dataset_states

pytestmark = pytest.mark.django_db

ADDRESS = "/api/v1/queries/"
TEXT = "SELECT icao, elevation FROM rawcore.rc_air_airport"
ANSWER = {
    "columns": ["icao", "elevation"],
    "types": ["string", "decimal(5,1)"],
    "rows": [["EDDF", "364.0"], ["EDDM", None]],
    "truncated": True,
    "masked": [],
    "hidden": {},
}


@pytest.fixture
def query(reader: Client, airport: TargetDataset) -> str:
    """Return the address of an accepted query."""
    for state in dataset_states():
        if state.materialization == "table":
            write_applied(environment=current_environment(), state=state, versions={}, execution=None, through=0)
    accepted = reader.post(ADDRESS, {"text": TEXT}, content_type="application/json")
    assert accepted.status_code == 202
    return accepted.headers["Location"]


@pytest.fixture
def answered_query(query: str) -> str:
    """Return the address of a query that a worker answered."""
    ReadRequest.objects.update(status="succeeded", answer=ANSWER)
    return query


def test_a_query_waits_until_a_worker_answers(reader: Client, query: str):
    response = reader.get(query)
    assert (response.json()["text"], response.json()["status"], response.json()["answer"]) == (TEXT, "queued", None)
    assert "Retry-After" in response.headers


def test_an_answer_has_its_columns_with_types_and_its_rows(reader: Client, answered_query: str):
    answer = reader.get(answered_query).json()["answer"]
    assert answer["columns"][1] == {"name": "elevation", "type": "decimal(5,1)", "masked": False}
    assert (answer["rows"], answer["truncated"]) == (ANSWER["rows"], True)


def test_query_rows_are_returned_as_csv_or_parquet(reader: Client, answered_query: str):
    assert reader.get(f"{answered_query}rows/").content.decode().splitlines()[1:] == ['"EDDF","364.0"', '"EDDM",']
    parquet = reader.get(f"{answered_query}rows/", headers={"Accept": "application/vnd.apache.parquet"})
    assert parquet["Content-Type"] == "application/vnd.apache.parquet"
    rows = pq.read_table(io.BytesIO(parquet.content)).to_pylist()
    assert rows == [{"icao": "EDDF", "elevation": Decimal("364.0")}, {"icao": "EDDM", "elevation": None}]


def test_query_rows_in_an_unknown_format_are_refused(reader: Client, answered_query: str):
    assert reader.get(f"{answered_query}rows/?format=xml").status_code == 400
    assert reader.get(f"{answered_query}rows/", headers={"Accept": "image/png"}).status_code == 406


def test_query_rows_are_refused_until_a_worker_has_answered(reader: Client, query: str):
    assert reader.get(f"{query}rows/").json()["code"] == "READ_UNFINISHED"


def test_a_query_is_seen_by_its_user_only(operator: Client, answered_query: str):
    assert operator.get(answered_query).status_code == 404
    assert operator.get(f"{answered_query}rows/").status_code == 404


def test_a_query_over_an_unknown_table_is_refused(reader: Client, airport: TargetDataset):
    refused = reader.post(ADDRESS, {"text": "SELECT * FROM rawcore.nothing"}, content_type="application/json")
    assert refused.status_code == 422
    assert "rawcore.nothing" in refused.json()["detail"]
