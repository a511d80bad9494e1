"""Quality of a dataset on its page, on the page of a run, and downstream."""

import re
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from elevata.accounts.models import RoleGrant
from elevata.accounts.roles import Role
from elevata.accounts.services.users import grant_role
from loader.models import CheckResult, DatasetRun, LoadRun, ReadRequest, TableProfile
from loader.selectors.readable_results import readable_results
from metadata.models import DatasetInput, QualityCheck, TargetDataset
from metadata.services.quality import create_check
from tests.architecture.world import person as someone
from tests.elevata.web.forms import typed
from tests.elevata.web.html import text_of
from tests.elevata.web.pages import words
from tests.loader.factories import EnvironmentFactory, LoadRunFactory, ReadRequestFactory, check_result

pytestmark = pytest.mark.django_db


@pytest.fixture
def check(warehouse: TargetDataset) -> QualityCheck:
    return create_check(dataset=warehouse, name="named", kind="not_null", arguments={"columns": ["name"]})


def add_result(check: QualityCheck, outcome: str = "warned", run: str = "good", **values) -> CheckResult:
    return check_result(check, outcome, run=LoadRun.objects.get(run_id=run), **values)


def page_of(dataset: TargetDataset, part: str = "quality/") -> str:
    return f"/datasets/{dataset.key}/{part}"


def test_quality_page_shows_the_newest_result_and_a_chart_of_the_last_ones(reader: Client, check: QualityCheck):
    add_result(check, "passed", failed=0, run="bad")
    add_result(check)
    page = text_of(reader, page_of(check.dataset))
    assert "Warned 2 of 9 rows failed" in words(page)
    assert 'aria-label="Last 2 results: 1 passed, 1 warned"' in page
    assert page.count('class="bar is-') == 2
    assert "Last 2 results" in words(page)
    assert "/load-runs/bad/" in page
    assert "icao=KJFK" in page
    assert "Add check" not in page


def test_keys_of_failed_rows_of_a_sensitive_dataset_are_shown_only_to_stewards(reader: Client, check: QualityCheck):
    add_result(check)
    check.dataset.columns.filter(name="name").update(pii=True)
    assert "icao=KJFK" not in text_of(reader, page_of(check.dataset))
    steward = Client()
    steward.force_login(someone("sue", Role.STEWARD))
    assert "icao=KJFK" in text_of(steward, page_of(check.dataset))


def test_run_page_shows_the_check_results_of_its_datasets(reader: Client, check: QualityCheck):
    add_result(check)
    assert "Warned named 2 of 9 rows failed" in words(text_of(reader, "/load-runs/good/"))
    assert "named 2 of 9" not in words(text_of(reader, "/load-runs/bad/"))


def test_downstream_dataset_shows_failed_checks_of_its_inputs(reader: Client, check: QualityCheck, warehouse):
    reading = TargetDataset.objects.get(name="rc_net_route")
    other = create_check(dataset=warehouse, name="other", kind="row_count", arguments={"minimum": "1"})
    mark = "Built on data that failed"
    assert mark not in text_of(reader, page_of(reading, ""))
    DatasetInput.objects.create(dataset=reading, upstream=warehouse, ordinal=9)
    add_result(check)
    add_result(other)
    text = words(text_of(reader, page_of(reading, "")))
    assert f"{mark} 2 checks: rawcore.rc_air_airport (2)" in text
    assert mark not in text_of(reader, page_of(warehouse, ""))
    history = TargetDataset.objects.get(history_of=warehouse)
    assert f"{mark} 2 checks" in words(text_of(reader, page_of(history, "")))


def test_downstream_mark_disappears_after_the_check_passes(reader: Client, check: QualityCheck, warehouse):
    history = TargetDataset.objects.get(history_of=warehouse)
    add_result(check)
    LoadRunFactory(run_id="later")
    add_result(check, "passed", run="later", failed=0)
    assert "Built on data" not in text_of(reader, page_of(history, ""))


def test_failed_check_links_its_rows_for_those_who_may_read_them(reader: Client, check: QualityCheck):
    address = f"/datasets/{check.dataset.key}/data/?failing={check.key}"
    add_result(check, "passed", failed=0)
    assert address not in text_of(reader, page_of(check.dataset))
    add_result(check, failed=1234)
    page = text_of(reader, page_of(check.dataset))
    assert (address in page, "Show 1,234 rows" in page) == (True, True)
    stranger, vera = Client(), someone("vera")
    grant_role(user=vera, role="viewer", schema="raw")
    stranger.force_login(vera)
    page = text_of(stranger, page_of(check.dataset))
    assert address not in page
    assert 'disabled title="Running checks needs the permission to read data"' in page


def test_quarantined_rows_of_a_load_are_linked_in_the_quarantine(reader: Client, check: QualityCheck):
    add_result(check, "quarantined")
    page = text_of(reader, page_of(check.dataset))
    assert f'href="/datasets/{check.dataset.key}/quality/quarantine/">Show 2 rows' in page


def test_select_of_a_failed_check_opens_on_the_sql_page(reader: Client, warehouse: TargetDataset):
    query = create_check(dataset=warehouse, name="q", kind="query", arguments={"sql": f"SELECT icao FROM {warehouse}"})
    add_result(query)
    assert f'href="/sql/?check={query.key}">Open SELECT' in text_of(reader, page_of(warehouse))
    assert f"SELECT icao FROM {warehouse}</textarea>" in text_of(reader, f"/sql/?check={query.key}")


def test_data_page_filters_by_the_failing_rows_of_a_check(reader: Client, check: QualityCheck):
    address = page_of(check.dataset, "data/")
    page = text_of(reader, f"{address}?failing={check.key}&find=x")
    assert "Rows that fail the check named in the table as it is." in words(page)
    assert page.count(f'<input type="hidden" name="failing" value="{check.key}">') == 2
    answer = reader.post(page_of(check.dataset, "reads/"), {"kind": "sample", "failing": check.key, "rows": "20"})
    read = ReadRequest.objects.get()
    assert (answer.status_code, read.arguments) == (302, {"limit": 20, "failing": str(check.key)})


def test_answer_without_failing_rows_shows_a_message_and_pages_keep_the_check(reader: Client, check: QualityCheck):
    arguments = {"failing": str(check.key), "limit": 20}
    answer = {"table_version": 7, "columns": ["icao"], "rows": [], "truncated": False, "masked": []}
    read = answered_read(reader, check.dataset, "sample", arguments, answer)
    assert "No row of the table fails the check now." in words(text_of(reader, f"/reads/{read.pk}/"))
    ReadRequest.objects.update(answer=answer | {"rows": [["EDDF"]], "truncated": True})
    page = text_of(reader, f"/reads/{read.pk}/")
    assert f"failing={check.key}&amp;offset=20" in page or f"offset=20&amp;failing={check.key}" in page
    assert f'<input type="hidden" name="failing" value="{check.key}">' in page


def answered_read(client: Client, dataset: TargetDataset, kind: str, arguments: dict, answer: dict) -> ReadRequest:
    user = client.get("/account/").wsgi_request.user
    return ReadRequestFactory(
        kind=kind,
        dataset=dataset,
        requested_by=user,
        arguments=arguments,
        status="succeeded",
        answer=answer,
        finished_at=timezone.now(),
    )


def test_masked_check_is_refused_before_its_rows_are_read(reader: Client, check: QualityCheck):
    check.dataset.columns.filter(name="name").update(pii=True)
    page = reader.post(page_of(check.dataset, "reads/"), {"kind": "sample", "failing": check.key})
    assert "compares name of rawcore.rc_air_airport, which is masked for you" in page.content.decode()
    assert not ReadRequest.objects.exists()


def test_check_now_requests_the_checks_of_the_dataset_or_one_of_them(reader: Client, check: QualityCheck):
    page = text_of(reader, page_of(check.dataset))
    assert "Check now" in words(page)
    reader.post(page_of(check.dataset, "reads/"), {"kind": "quality"})
    reader.post(page_of(check.dataset, "reads/"), {"kind": "quality", "check": check.key})
    assert [read.arguments for read in ReadRequest.objects.order_by("pk")] == [{}, {"check": str(check.key)}]


def test_new_check_is_run_at_once_on_a_loaded_table(editor: Client, warehouse: TargetDataset):
    place = f"/datasets/{warehouse.key}/checks/new/?kind=not_null"
    form = typed(text_of(editor, place), having="severity", name="named", columns=["name"])
    page = editor.post(place, form).url.partition("#")[0]
    assert 'hx-trigger="load, submit"' in text_of(editor, page)
    assert 'hx-trigger="load, submit"' not in text_of(editor, page)


def test_results_of_check_now_link_the_failing_rows(reader: Client, check: QualityCheck):
    passed = {"key": str(uuid4()), "name": "counted", "kind": "row_count", "severity": "warn", "outcome": "passed"}
    failed = {"key": str(check.key), "name": "named", "kind": "not_null", "severity": "stop", "outcome": "stopped"}
    answer = {"table_version": 7, "results": [passed, failed | {"failed": 2, "total": 9, "samples": ["icao=KJFK"]}]}
    read = answered_read(reader, check.dataset, "quality", {}, answer)
    page = text_of(reader, f"/reads/{read.pk}/")
    assert "1 of 2 checks passed on table version 7." in words(page)
    assert "Stopped named 2 of 9 rows failed Show 2 rows For example icao=KJFK" in words(page)
    assert f"/datasets/{check.dataset.key}/data/?failing={check.key}" in page


def test_results_of_check_now_have_no_numbers_that_reveal_sensitive_values(reader: Client, check: QualityCheck):
    check.dataset.columns.filter(name="name").update(pii=True)
    failed = {"key": str(check.key), "name": "named", "kind": "condition", "severity": "warn", "outcome": "warned"}
    revealing = failed | {"failed": 2, "total": 9, "tells": [str(check.dataset.key)]}
    read = answered_read(reader, check.dataset, "quality", {}, {"table_version": 7, "results": [revealing]})
    page = words(text_of(reader, f"/reads/{read.pk}/"))
    assert "its numbers are hidden" in page
    assert "2 of 9" not in page


PROFILE = {
    "rows": 100,
    "profile": [
        {"name": "icao", "type": "string(4)", "rows": 100, "distinct": 100, "min_length": 4, "max_length": 4},
        {"name": "name", "type": "string", "rows": 100, "distinct": 2, "top": [["a", 60], ["b", 40]]}
        | {"values_complete": True},
        {"name": "elevation", "type": "float", "rows": 100, "nulls": 3, "distinct": 50, "minimum": "1.5"}
        | {"maximum": "9.5", "histogram": [1, 2, 3]},
    ],
}


@pytest.fixture
def profile(warehouse: TargetDataset) -> TableProfile:
    environment = EnvironmentFactory()
    return TableProfile.objects.create(
        environment=environment, dataset=warehouse, masked=True, table_version=7, content=PROFILE, at=timezone.now()
    )


def test_profile_page_without_a_stored_profile_requests_a_read(reader: Client, warehouse: TargetDataset):
    page = text_of(reader, page_of(warehouse, "quality/profile/"))
    assert '<input type="hidden" name="kind" value="profile">' in page
    reader.post(page_of(warehouse, "reads/"), {"kind": "profile"})
    assert ReadRequest.objects.get().kind == "profile"


def test_the_stored_profile_is_drawn(reader: Client, profile: TableProfile):
    page = text_of(reader, page_of(profile.dataset, "quality/profile/"))
    assert "100 rows, table version 7" in words(page)
    assert 'aria-label="Histogram: 1, 2, 3 rows a bucket"' in page
    assert "elevation float 3 50 1.5 9.5" in words(page)
    assert "Suggested checks" not in page


def test_profile_hides_values_of_a_column_classified_later(reader: Client, profile: TableProfile):
    profile.dataset.columns.filter(name="name").update(pii=True)
    page = words(text_of(reader, page_of(profile.dataset, "quality/profile/")))
    assert "name string 0 2 values are masked for you" in page


def test_profile_of_an_empty_table_shows_a_message(reader: Client, profile: TableProfile):
    TableProfile.objects.update(content={"rows": 0, "profile": []})
    assert "The table has no rows." in words(text_of(reader, page_of(profile.dataset, "quality/profile/")))


def test_a_suggested_check_is_accepted_by_a_click(editor: Client, profile: TableProfile):
    page = text_of(editor, page_of(profile.dataset, "quality/profile/"))
    assert 'value="accepted_values:name"' in page
    place = page_of(profile.dataset, "quality/suggestions/")
    answer = editor.post(place, {"suggestion": "accepted_values:name"})
    check = QualityCheck.objects.get()
    assert answer.headers["Location"] == page_of(profile.dataset, f"quality/#check-{check.key}")
    assert (check.kind, check.severity) == ("accepted_values", "warn")
    assert check.arguments == {"columns": ["name"], "values": ["a", "b"]}
    assert 'value="accepted_values:name"' not in text_of(editor, page_of(profile.dataset, "quality/profile/"))
    assert editor.post(place, {"suggestion": "accepted_values:name"}).status_code == 404


def test_accepted_values_of_a_sensitive_column_are_not_suggested_even_to_stewards(profile: TableProfile):
    profile.dataset.columns.filter(name="name").update(pii=True)
    browser = Client()
    browser.force_login(someone("sue", Role.STEWARD, Role.EDITOR))
    page = text_of(browser, page_of(profile.dataset, "quality/profile/"))
    assert 'value="not_null:name"' in page
    assert 'value="accepted_values:name"' not in page
    wanted = {"suggestion": "accepted_values:name"}
    assert browser.post(page_of(profile.dataset, "quality/suggestions/"), wanted).status_code == 404


def test_quarantined_rows_have_a_check_box_each(operator: Client, starter, warehouse: TargetDataset):
    answer = {
        "columns": ["__entry", "__run", "__at", "__reasons", "icao", "name"],
        "rows": [["ab" * 32, "good", "2026-11-21 08:00:00", "named", "KJFK", None]],
        "truncated": False,
        "masked": [],
        "table_version": 1,
    }
    read = ReadRequestFactory(
        kind="quarantine", dataset=warehouse, requested_by=starter, status="succeeded", answer=answer
    )
    page = text_of(operator, f"/reads/{read.pk}/")
    assert f'value="{"ab" * 32}"' in page
    assert "named good 2026-11-21 08:00:00 KJFK NULL" in words(page)


def test_rejected_rows_show_file_and_row_and_are_downloaded_as_csv(reader: Client, person, warehouse: TargetDataset):
    columns = ["__entry", "__run", "__at", "__reasons", "__file", "__row", "__record", "icao", "name"]
    entry = ["ab" * 32, "bad", "2026-11-21 08:00:00", "NULL_KEY icao", "a.csv", "7", None, None, "Kennedy"]
    answer = {"columns": columns, "rows": [entry], "truncated": False, "masked": [], "table_version": 1}
    read = ReadRequestFactory(
        kind="quarantine",
        dataset=warehouse,
        requested_by=person,
        status="succeeded",
        arguments={"run_id": "bad"},
        answer=answer,
    )
    assert "NULL_KEY icao a.csv 7 NULL Kennedy" in words(text_of(reader, f"/reads/{read.pk}/"))
    file = reader.get(f"/reads/{read.pk}/rows.csv").content.decode()
    assert file.splitlines()[0].replace('"', "") == "entry,run,at,reasons,file,row,record,icao,name"


def test_download_of_all_quarantined_rows_requests_another_read(reader: Client, person, warehouse: TargetDataset):
    answer = {"columns": ["__entry", "name"], "rows": [["ab", "x"]], "truncated": True, "table_version": 1}
    given = {"kind": "quarantine", "dataset": warehouse, "requested_by": person, "status": "succeeded"}
    read = ReadRequestFactory(**given, arguments={"limit": 100, "run_id": "bad"}, answer=answer)
    assert 'name="all_rows"' in text_of(reader, f"/reads/{read.pk}/")
    place = page_of(warehouse, "reads/")
    reader.post(place, {"kind": "quarantine", "run": "bad"})
    reader.post(place, {"kind": "quarantine", "run": "bad", "all_rows": "on"})
    wanted = ReadRequest.objects.filter(kind="quarantine").exclude(pk=read.pk).order_by("pk")
    assert [entry.arguments["limit"] for entry in wanted] == [100, 10_000]


def test_run_page_lists_all_fault_classes_and_links_the_rejected_rows(reader: Client, warehouse: TargetDataset):
    faults = [
        {"code": code, "message": f"{code} found", "column": column, "count": count, "samples": [f"line 3: {code}-x"]}
        for code, column, count in (("VALUE_DOES_NOT_FIT", "elevation", 4), ("NULL_KEY", "icao", 1))
    ]
    row = DatasetRun.objects.filter(dataset=warehouse).first()
    row.error = faults[0] | {"faults": faults}
    row.save()
    page, address = f"/load-runs/{row.run.run_id}/", page_of(warehouse, f"rejected/{row.run.run_id}/")
    assert "NULL_KEY icao 1" in words(text_of(reader, page))
    assert address in text_of(reader, page)
    assert "Rejected rows of run" in text_of(reader, address)


def test_chosen_rows_are_released_with_a_reason(operator: Client, warehouse: TargetDataset):
    place, entry = page_of(warehouse, "quality/quarantine/"), "ab" * 32
    assert "Decide" in text_of(operator, place)
    without = operator.post(place, {"decision": "release"})
    assert (without.status_code, b"Enter a reason." in without.content) == (422, True)
    answer = operator.post(place, {"decision": "release", "reason": "confirmed", "entries": [entry]})
    run = LoadRun.objects.get(kind="quarantine_decision")
    assert answer.headers["Location"] == f"/load-runs/{run.run_id}/"
    assert run.details["asked"] == {"decision": "release", "entries": [entry], "of_run": ""}


def test_results_are_listed_by_the_api_without_keys_of_rows(reader: Client, check: QualityCheck):
    result = add_result(check)
    answer = reader.get(f"/api/v1/check-results/?dataset={check.dataset.key}&outcome=warned").json()
    (listed,) = answer["results"]
    assert (listed["id"], listed["run"], listed["failed"], listed["total"]) == (result.pk, "good", 2, 9)
    assert "samples" not in listed
    assert reader.get("/api/v1/check-results/?outcome=passed").json()["count"] == 0


def test_history_batch_with_faults_has_no_rejected_rows(warehouse: TargetDataset):
    row = DatasetRun.objects.filter(dataset=warehouse).first()
    row.error = {"code": "RAGGED_ROW", "faults": [{"code": "RAGGED_ROW"}]}
    assert row.has_rejected_rows
    row.run.kind = LoadRun.Kind.HISTORY_BATCH
    assert not row.has_rejected_rows


@pytest.fixture
def total(warehouse: TargetDataset) -> QualityCheck:
    """Create the highest elevation as a check stored it before the column was classified."""
    arguments = {
        "columns": ["elevation"],
        "aggregate": "max",
        "dataset": str(warehouse),
        "other_columns": ["elevation"],
    }
    check = create_check(dataset=warehouse, name="highest", kind="total", arguments=arguments)
    add_result(check, value=4321.5, low=4320, high=4320, message="max is not the same: 4321.5 and 4320")
    return check


def shown_texts(client: Client, check: QualityCheck) -> str:
    """Return the texts of a dataset's pages, charts and run, and of the API, about a result."""
    pages = (page_of(check.dataset), page_of(check.dataset, "charts/"), "/load-runs/good/")
    api = client.get(f"/api/v1/check-results/?check={check.key}").content.decode()
    detail = client.get(f"/api/v1/check-results/{CheckResult.objects.get(check_key=check.key).pk}/").content.decode()
    return " ".join([*(text_of(client, page) for page in pages), api, detail]).replace(",", "")


def test_check_results_hide_numbers_of_a_column_classified_later(reader: Client, total: QualityCheck):
    assert shown_texts(reader, total).count("4321") >= 4
    total.dataset.columns.filter(name="elevation").update(sensitivity="confidential")
    text = shown_texts(reader, total)
    assert not re.search(r"(?<![\w-])432[01](?![\w-])", text)  # not the digits of a key or of a token
    assert "max is not the same" in text


def test_numbers_of_a_check_that_is_gone_are_hidden_if_its_dataset_is_sensitive(reader: Client, total: QualityCheck):
    result = CheckResult.objects.get(check_key=total.key)
    QualityCheck.objects.filter(pk=total.pk).delete()
    address = f"/api/v1/check-results/{result.pk}/"
    assert reader.get(address).json()["value"] == 4321.5
    total.dataset.columns.filter(name="name").update(pii=True)
    assert reader.get(address).json()["value"] is None


COUNTED = 43217


def test_row_counts_chosen_by_a_sensitive_column_are_shown_only_to_stewards(reader: Client, warehouse: TargetDataset):
    """Check that only the outcome is shown: a SELECT, a condition or ``where`` can make a row count that is a value."""
    arguments = {
        "query": {"sql": f"SELECT 1 FROM {warehouse} LATERAL VIEW explode(split(repeat(',', elevation), ','))"},
        "condition": {"condition": "elevation > 9"},
        "row_count": {"minimum": "1", "where": "elevation > 9"},
    }
    steward = Client()
    steward.force_login(someone("sue", Role.STEWARD))
    checks = [create_check(dataset=warehouse, name=kind, kind=kind, arguments=arguments[kind]) for kind in arguments]
    for check in checks:
        add_result(check, failed=COUNTED, total=COUNTED, value=COUNTED, message=f"{COUNTED} rows")
        assert str(COUNTED) in shown_texts(reader, check)
    warehouse.columns.filter(name="elevation").update(sensitivity="confidential")
    for check in checks:
        text = shown_texts(reader, check)
        assert (str(COUNTED) in text, "its numbers are hidden" in text) == (False, True), check.kind
        assert str(COUNTED) in shown_texts(steward, check), check.kind
    CheckResult.objects.update(tells=[str(warehouse.key)])
    QualityCheck.objects.filter(kind="condition").update(arguments={"condition": "name <> ''"})
    QualityCheck.objects.filter(kind="query").delete()
    for check in checks:
        text = shown_texts(reader, check)
        assert str(COUNTED) not in text, f"{check.kind} after a change of the check"


def test_row_count_of_a_query_over_the_hash_of_a_sensitive_key_is_hidden(reader: Client, warehouse: TargetDataset):
    warehouse.columns.filter(key_ordinal=1).update(pii=True)
    sql = f"SELECT 1 FROM {warehouse} WHERE {warehouse.name}_key LIKE '0%'"
    check = create_check(dataset=warehouse, name="hashes", kind="query", arguments={"sql": sql})
    add_result(check, failed=COUNTED, total=COUNTED)
    assert str(COUNTED) not in shown_texts(reader, check)


def steward_client() -> Client:
    client = Client()
    client.force_login(someone("sue", Role.STEWARD))
    return client


def test_number_of_a_reference_with_unknown_parents_is_shown_though_its_dataset_is_sensitive(
    reader: Client, check: QualityCheck
):
    """Check the result of a reference, which has the reference's key and no row in the metadata."""
    key = uuid4()
    result = add_result(check, check_key=key, kind="relationship", severity="quarantine", failed=COUNTED)
    check.dataset.columns.filter(name="name").update(pii=True)
    assert reader.get(f"/api/v1/check-results/{result.pk}/").json()["failed"] == COUNTED
    CheckResult.objects.update(tells=[str(check.dataset.key)])
    assert reader.get(f"/api/v1/check-results/{result.pk}/").json()["failed"] is None


def test_numbers_about_unknown_datasets_need_a_steward_if_any_column_is_classified(reader: Client, check: QualityCheck):
    steward, dataset = steward_client(), check.dataset
    gone = add_result(check, check_key=uuid4(), kind="query", failed=COUNTED)
    orphan = add_result(check, check_key=uuid4(), kind="condition", failed=COUNTED, dataset=None)
    sql = "SELECT 1 FROM rawcore.gone"
    QualityCheck.objects.filter(pk=check.pk).update(kind="query", arguments={"sql": sql})
    reading = add_result(check, kind="query", failed=COUNTED)
    addresses = [f"/api/v1/check-results/{result.pk}/" for result in (gone, orphan, reading)]
    assert [reader.get(address).json()["failed"] for address in addresses] == [COUNTED] * 3
    dataset.columns.filter(name="name").update(pii=True)
    assert [reader.get(address).json()["failed"] for address in addresses] == [None] * 3
    assert [steward.get(address).json()["failed"] for address in addresses] == [COUNTED] * 3


def test_steward_of_one_schema_reads_no_number_about_unknown_datasets(check: QualityCheck):
    user = someone("sol", Role.VIEWER)
    RoleGrant.objects.create(user=user, role=Role.STEWARD, schema=check.dataset.schema.name)
    gone = add_result(check, check_key=uuid4(), kind="query", failed=COUNTED)
    check.dataset.columns.filter(name="name").update(pii=True)
    (shown_result,) = readable_results([gone], user)
    assert shown_result.failed is None


def test_row_count_of_a_query_is_hidden_if_a_sensitive_column_of_its_table_decides_it(
    reader: Client, warehouse: TargetDataset
):
    other = TargetDataset.objects.get(name="rc_net_route")
    warehouse.columns.filter(name="name").update(pii=True)
    queries = {
        f"SELECT * FROM {warehouse} WHERE elevation > 9": True,
        f"SELECT * FROM {warehouse} WHERE name = 'x'": False,
        f"SELECT * FROM {other} AS r WHERE r.name = 'x'": True,
        f"SELECT 1 FROM {other} AS r JOIN {warehouse} AS a ON a.elevation = r.id WHERE r.name = 'x'": True,
        f"SELECT 1 FROM {other} AS r JOIN {warehouse} AS a ON a.elevation = r.id WHERE name = 'x'": False,
    }
    for number, (sql, is_shown) in enumerate(queries.items()):
        check = create_check(dataset=warehouse, name=f"query {number}", kind="query", arguments={"sql": sql})
        result = add_result(check, failed=COUNTED)
        listed = reader.get(f"/api/v1/check-results/{result.pk}/").json()
        assert (listed["failed"] == COUNTED) is is_shown, sql
