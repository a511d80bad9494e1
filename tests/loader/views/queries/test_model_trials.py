"""Trials of models: the form, the state of a request, and the answer with its difference."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from architecture.models import ChangeReport
from loader.models import ReadRequest
from loader.services.reads.read_requests import request_trial
from metadata.models import TargetDataset
from metadata.services.datasets import targets
from tests.architecture.world import World
from tests.database.seals import seal_as_written
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read, words
from tests.factories import TargetSchemaFactory

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}
SELECT = "SELECT icao, name FROM rawcore.rc_air_airport"
DIFFERENCE = {
    "table": "bizcore.board",
    "table_version": 3,
    "key": ["icao"],
    "rows": {"added": 1, "changed": 1, "gone": 1, "same": 1200},
    "columns": {
        "added": [{"name": "lid", "type": "string"}],
        "gone": [],
        "retyped": [{"name": "name", "before": "int", "after": "string"}],
        "left_out": [],
    },
    "changed": {"name": 1},
    "repeated_keys": 0,
    "samples": {
        "columns": ["icao", "name"],
        "added": [["EDDB", "Berlin"]],
        "changed": [{"before": ["EDDF", "Frankfurt"], "after": ["EDDF", None]}],
        "gone": [["EDDT", "Tegel"]],
    },
}
ANSWER = {
    "columns": ["icao", "name"],
    "types": ["string", "string"],
    "rows": [["EDDF", "Frankfurt"]],
    "truncated": False,
    "cost": {"bytes_read": 2048},
    "seconds": 0.4,
    "masked": [],
    "hidden": {},
}


@pytest.fixture
def board(airport: TargetDataset) -> TargetDataset:
    """Return a model of airports."""
    schema = TargetSchemaFactory(name="bizcore")
    return targets.create_target_dataset(schema=schema, name="board", select=SELECT, business_key=["icao"])


def run(client: Client, select: str = SELECT, **more: str) -> str:
    return html_of(client.post("/models/try/run/", {"select": select, **more}, headers=HTMX))


def answered_trial(person: User, **answer: object) -> ReadRequest:
    made = request_trial(SELECT, user=person).read
    ReadRequest.objects.filter(pk=made.pk).update(answer=ANSWER | answer)
    made.job.__class__.objects.filter(pk=made.pk).update(status="succeeded")
    return ReadRequest.objects.get(pk=made.pk)


def test_the_page_of_a_model_has_its_select_and_offers_a_comparison(reader: Client, board: TargetDataset):
    page = read(reader, f"/models/try/?dataset={board.key}")
    assert SELECT in page
    assert "Compare with the table" in page


def test_trial_page_without_a_model_offers_no_comparison(reader: Client, airport: TargetDataset):
    assert "Compare with the table" not in read(reader, "/models/try/")


def test_a_trial_is_requested_with_the_chosen_part_of_the_tables(reader: Client, board: TargetDataset):
    assert "Waiting" in run(reader, sample="share:0.1", limit="200", dataset=str(board.key))
    made = ReadRequest.objects.get()
    assert (made.kind, made.dataset) == ("try_model", board)
    assert made.arguments == {"text": SELECT, "limit": 200, "sample": {"share": 0.1}, "compare": False}


def test_an_error_of_the_select_is_shown_with_its_place(reader: Client, airport: TargetDataset):
    assert "line 1, column 8" in run(reader, "SELECT nothing FROM rawcore.rc_air_airport")
    assert not ReadRequest.objects.exists()


def test_an_answer_has_rows_types_and_cost(reader: Client, person: User, airport: TargetDataset):
    page = words(read(reader, f"/models/try/answers/{answered_trial(person).pk}/"))
    assert "1 row" in page
    assert "Frankfurt" in page
    assert "reads 2.0" in page


def test_a_difference_has_counts_columns_and_values_before_and_after(
    reader: Client, person: User, airport: TargetDataset
):
    page = read(reader, f"/models/try/answers/{answered_trial(person, difference=DIFFERENCE).pk}/")
    assert "1 added, 1 changed, 1 gone, 1,200 the same" in words(page)
    assert "lid (string) is added" in words(page)
    assert "<del>Frankfurt</del>" in page
    assert "Berlin" in page


def test_trial_is_not_shown_to_another_user(reader: Client, starter: User, airport: TargetDataset):
    made = answered_trial(starter)
    assert reader.get(f"/models/try/answers/{made.pk}/").status_code == 404


def test_an_answer_is_not_shown_after_a_column_was_classified(reader: Client, person: User, airport: TargetDataset):
    made = answered_trial(person)
    airport.columns.filter(name="name").update(pii=True)
    page = read(reader, f"/models/try/answers/{made.pk}/")
    assert "Frankfurt" not in page
    assert "any more" in page


def test_a_report_offers_to_compare_the_rows_of_changed_models(viewer: Client, world: World):
    schema = TargetSchemaFactory(name="bizcore")
    seal_as_written()
    select = "SELECT customer_id, full_name FROM rawcore.rc_crm_customer"
    board = targets.create_target_dataset(schema=schema, name="board", select=select, business_key=["customer_id"])
    world.executed()
    board.refresh_from_db()
    changed = f"{select} WHERE customer_id > 1"
    targets.update_target_dataset(dataset=board, expected_version=board.version, select=changed)
    report = world.report()

    part = html_of(viewer.get(f"/reports/{report.report_id}/models/", headers=HTMX))

    assert "Compare rows" in part
    assert changed.replace(">", "&gt;") in part
    assert f"/reports/{report.report_id}/models/" in read(viewer, f"/reports/{report.report_id}/")


def test_a_report_without_changed_models_offers_no_comparison(viewer: Client, renamed: ChangeReport):
    assert "Compare rows" not in html_of(viewer.get(f"/reports/{renamed.report_id}/models/", headers=HTMX))


def test_trial_is_requested_with_the_key_of_the_form(reader: Client, board: TargetDataset):
    run(reader, check="on", business_key="icao, name", dataset=str(board.key))
    run(reader, check="on", business_key="")
    run(reader, check="on")
    keys = [made.arguments.get("declared_key") for made in ReadRequest.objects.order_by("pk")]
    assert keys == [["icao", "name"], [], None]
    assert all(made.arguments["check"] for made in ReadRequest.objects.all())
    assert 'name="check"' in read(reader, f"/models/try/?dataset={board.key}")


def test_answer_names_the_key_and_checks_that_fail_with_rows(reader: Client, person: User, board: TargetDataset):
    spec = {"key": "k", "name": "key is unique", "kind": "unique", "severity": "stop"}
    failed = {"result": spec | {"outcome": "stopped", "failed": 2, "total": 9}, "truncated": True}
    failed |= {"columns": ["icao"], "types": ["string"], "rows": [["EDDM"], ["EDDM"]]}
    passed = {"result": spec | {"name": "short", "outcome": "passed"}, "columns": ["icao"], "rows": []}
    made = answered_trial(
        person,
        checked=[passed | {"truncated": False}, failed],
        left_out_checks={"titled": "title is masked for you"},
    )
    page = words(read(reader, f"/models/try/answers/{made.pk}/"))
    assert "Key and checks 1 of 2 passed" in page
    assert "Would stop the load key is unique 2 of 9 rows failed First 2 failing rows" in page
    assert page.index("key is unique") < page.index("Passed short")
    assert "titled not checked: title is masked for you" in page
