"""Statements of a report in a dialect: its page, file and endpoint."""

import html
import re

import pytest
from django.test import Client

from architecture.models import ChangeReport
from tests.architecture.world import World
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import address, read, rename, words

pytestmark = pytest.mark.django_db

DIALECTS = ("bigquery", "databricks", "duckdb", "fabric", "mssql", "postgres", "snowflake")
RENAME = 'ALTER TABLE "rawcore"."rc_crm_customer" RENAME COLUMN "full_name" TO "display_name";'


@pytest.mark.parametrize("dialect", DIALECTS)
def test_endpoint_returns_the_statements_of_each_operation(viewer: Client, renamed: ChangeReport, dialect: str):
    answer = viewer.get(f"/api/v1/reports/{renamed.report_id}/sql/", {"dialect": dialect})
    assert answer.status_code == 200
    document = answer.json()
    assert [item["op"] for item in document["operations"]] == ["rename_column", "rename_column"]
    assert all(item["statements"] for item in document["operations"])
    assert document["operations"][0]["text"] == "rename_column rawcore.rc_crm_customer: full_name → display_name"


def test_page_shows_each_statement_in_the_chosen_dialect(viewer: Client, renamed: ChangeReport):
    page = html_of(viewer.get(f"{address(renamed)}sql/", {"dialect": "postgres"}))
    (first, _) = re.findall(r"<pre[^>]*>(.*?)</pre>", page)
    assert html.unescape(re.sub(r"<[^>]+>", "", first)) == RENAME
    assert page.count("data-copy=") == 2
    for name in DIALECTS:
        assert f"?dialect={name}" in page


def test_report_page_links_to_its_dialects(viewer: Client, renamed: ChangeReport):
    assert f'href="{address(renamed)}sql/"' in read(viewer, address(renamed))


def test_file_has_the_statements_of_all_operations(viewer: Client, renamed: ChangeReport):
    answer = viewer.get(f"{address(renamed)}report.sql", {"dialect": "postgres"})
    assert RENAME in answer.content.decode()
    assert answer.headers["Content-Disposition"].endswith('.postgres.sql"')


def test_outdated_report_has_no_statements(world: World, viewer: Client, renamed: ChangeReport):
    rename(world, "display_name", "shown_name")
    text = words(read(viewer, f"{address(renamed)}sql/"))
    assert "REPORT_STALE" in text
    answer = viewer.get(f"/api/v1/reports/{renamed.report_id}/sql/", {"dialect": "postgres"})
    assert (answer.status_code, answer.json()["code"]) == (409, "REPORT_STALE")
    answer = viewer.get(f"{address(renamed)}report.sql", {"dialect": "postgres"})
    assert (answer.status_code, answer.headers["Location"]) == (302, f"{address(renamed)}sql/?dialect=postgres")


def test_unknown_dialect_is_refused(viewer: Client, renamed: ChangeReport):
    assert viewer.get(f"{address(renamed)}sql/", {"dialect": "oracle"}).status_code == 404
    assert viewer.get(f"/api/v1/reports/{renamed.report_id}/sql/").status_code == 400
