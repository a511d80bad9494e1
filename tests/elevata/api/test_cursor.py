"""Cursor pages: each row once, regardless of concurrent changes."""

from datetime import UTC, datetime

import pytest
from django.test import Client

from architecture.models import HealthFinding
from loader.models import LoadRun
from metadata.models import TargetDataset
from tests.loader.factories import LoadRunFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def runs() -> list[str]:
    """Create two runs of each date, so that the date alone does not order them."""
    names = [f"r{number}" for number in range(7)]
    for number, name in enumerate(names):
        LoadRunFactory(run_id=name, load_timestamp=datetime(2026, 1, 1 + number // 2, tzinfo=UTC))
    return names


def walk(client: Client, path: str, between=lambda: None) -> list[dict]:
    rows, following = [], f"/api/v1/{path}{'&' if '?' in path else '?'}cursor="
    while following:
        page = client.get(following).json()
        rows += page["results"]
        following = page["next"]
        between()
    return rows


@pytest.mark.parametrize("ordering", ["", "&ordering=load_timestamp", "&ordering=-load_timestamp", "&ordering=run_id"])
def test_cursor_pages_return_every_row_once_in_the_order_of_the_list(reader: Client, runs: list[str], ordering: str):
    rows = walk(reader, f"load-runs/?page_size=2{ordering}")
    whole = reader.get(f"/api/v1/load-runs/?page_size=100{ordering}").json()["results"]
    assert rows == whole
    assert sorted(row["run_id"] for row in rows) == runs


def test_cursor_pages_are_unaffected_by_rows_added_or_deleted_before_them(reader: Client, runs: list[str]):
    def disturb():
        LoadRun.objects.filter(run_id="r0").delete()
        if not LoadRun.objects.filter(run_id="late").exists():
            LoadRunFactory(run_id="late", load_timestamp=datetime(2025, 1, 1, tzinfo=UTC))

    rows = walk(reader, "load-runs/?page_size=3&ordering=load_timestamp", disturb)
    assert [row["run_id"] for row in rows] == runs


def test_cursor_pages_support_an_order_over_a_joined_table(reader: Client, airport: TargetDataset):
    rows = walk(reader, "datasets/?page_size=1")
    assert [row["name"] for row in rows] == [
        "raw_air_airport",
        "stg_air_airport",
        "rc_air_airport",
        "rc_air_airport_hist",
    ]


@pytest.mark.parametrize("cursor", ["nonsense", "a:b:c", "%00"])
def test_forged_cursor_is_refused(reader: Client, runs: list[str], cursor: str):
    answer = reader.get(f"/api/v1/load-runs/?cursor={cursor}")
    assert (answer.status_code, list(answer.json()["errors"])) == (400, ["cursor"])


def test_cursor_is_refused_with_another_ordering(reader: Client, runs: list[str]):
    following = reader.get("/api/v1/load-runs/?cursor=&page_size=2&ordering=load_timestamp").json()["next"]
    answer = reader.get(following.replace("ordering=load_timestamp", "ordering=-load_timestamp"))
    assert answer.status_code == 400


def test_cursor_with_a_page_number_is_refused(reader: Client, runs: list[str]):
    assert reader.get("/api/v1/load-runs/?cursor=&page=2").status_code == 400


def test_cursor_pages_support_a_computed_order(reader: Client, warehouse: TargetDataset):
    HealthFinding.objects.all().delete()
    HealthFinding.objects.bulk_create(
        HealthFinding(dataset=warehouse, code=f"c{number}", severity=severity, text="")
        for number, severity in enumerate(["hint", "error", "warning", "error", "hint"])
    )
    whole = [row["code"] for row in reader.get("/api/v1/health-findings/").json()["results"]]
    codes, address = [], "/api/v1/health-findings/?cursor=&page_size=2"
    while address:
        page = reader.get(address).json()
        codes += [row["code"] for row in page["results"]]
        address = page["next"]
    assert (codes, codes[:2]) == (whole, ["c1", "c3"])


def test_cursor_pages_support_the_order_of_columns(reader: Client, warehouse: TargetDataset):
    whole = [row["key"] for row in reader.get("/api/v1/columns/?page_size=500").json()["results"]]
    assert len(whole) > 4
    keys, address = [], "/api/v1/columns/?cursor=&page_size=4"
    while address:
        page = reader.get(address).json()
        keys += [row["key"] for row in page["results"]]
        address = page["next"]
    assert sorted(keys) == sorted(whole)
