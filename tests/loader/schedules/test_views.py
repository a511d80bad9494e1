"""Pages of schedules: list, detail, validation of fields, concurrent edits, immediate runs."""

import re
from dataclasses import replace

import pytest
from django.test import Client
from django.utils import timezone

from loader.models import LoadRun, Schedule
from loader.schedules.runs import check_waiting, start_due
from loader.schedules.services import create_schedule, update_schedule
from metadata.domain.scope import DATASET, SELECTION, Scope
from metadata.models import TargetDataset
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read
from tests.factories import SourceDatasetFactory, SystemFactory
from tests.loader.factories import EnvironmentFactory, WorkerFactory

pytestmark = pytest.mark.django_db

GIVEN = {"name": "nightly", "cron": "30 6 * * 1-5", "time_zone": "Europe/Berlin", "scope": "all", "active": "on"}


def text_of(client: Client, address: str) -> str:
    return html_of(client.get(address))


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


@pytest.fixture
def nightly(airport: TargetDataset) -> Schedule:
    return create_schedule(name="nightly", cron="30 6 * * 1-5", time_zone="Europe/Berlin")


def address(schedule: Schedule, page: str = "") -> str:
    return f"/schedules/{schedule.key}/{page}"


def typed(client: Client, schedule: Schedule, **changes: str) -> dict:
    """Return the data of the edit page: every field with its value, and these changes."""
    page = text_of(client, address(schedule, "edit/"))
    hidden = dict(re.findall(r'<input type="hidden" name="(initial-\w+|version)" value="([^"]*)"', page))
    return hidden | GIVEN | changes


# --- form defaults --------------------------------------------------------------------------------------


def test_new_schedule_begins_in_the_zone_of_the_account(operator: Client, airport: TargetDataset):
    assert "data-own-zone" in text_of(operator, "/schedules/new/")
    session = operator.session
    session["time_zone"] = "Europe/Vienna"
    session.save()
    page = text_of(operator, "/schedules/new/")
    assert "data-own-zone" not in page
    assert re.search(
        r'<input[^>]*name="time_zone"[^>]*value="Europe/Vienna"|value="Europe/Vienna"[^>]*name="time_zone"', page
    )


def test_stored_zone_is_kept_when_a_schedule_is_edited(operator: Client, nightly: Schedule):
    page = text_of(operator, address(nightly, "edit/"))
    assert "data-own-zone" not in page
    assert 'value="Europe/Berlin"' in page


def test_hours_that_a_vacuum_keeps_are_asked_for_a_vacuum_only(operator: Client, airport: TargetDataset):
    field = re.search(r'<input[^>]*name="retention_hours"[^>]*>', text_of(operator, "/schedules/new/"))[0]
    assert 'data-needs="kind"' in field
    assert 'data-needs-one-of="vacuum"' in field


# --- list and detail ------------------------------------------------------------------------------------


def test_empty_schedule_list_shows_a_message_and_offers_creation(operator: Client, reader: Client):
    assert "No schedule yet" in text_of(reader, "/schedules/")
    assert "Create the first schedule" in text_of(operator, "/schedules/")
    assert "Create the first schedule" not in text_of(reader, "/schedules/")


def test_schedule_list_shows_scope_times_and_last_outcome(reader: Client, nightly: Schedule):
    read = words(text_of(reader, "/schedules/"))
    assert "nightly active all datasets At 06:30 on Monday through Friday 30 6 * * 1-5 Europe/Berlin" in read
    assert re.search(r"(Mon|Tue|Wed|Thu|Fri) \d{4}-\d\d-\d\d 06:30 never", read)
    assert "1–1 of 1 schedule" in read
    assert "1 schedules" not in read


def test_schedules_of_other_environments_are_not_shown(reader: Client, nightly: Schedule):
    Schedule.objects.update(environment=EnvironmentFactory(name="elsewhere"))
    assert "No schedule yet" in text_of(reader, "/schedules/")
    assert reader.get(address(nightly)).status_code == 404


def test_schedule_page_shows_its_next_five_times_in_its_zone_and_in_utc(reader: Client, nightly: Schedule):
    times = text_of(reader, address(nightly)).split('id="times-head"')[1].split("</table>")[0]
    assert len(re.findall(r"06:30</td>", times)) == 5
    assert re.search(r"0[45]:30</td>", times)


def test_page_of_an_inactive_schedule_shows_no_times(reader: Client, nightly: Schedule):
    update_schedule(schedule=nightly, expected_version=1, active=False)
    text = text_of(reader, address(nightly))
    assert "The schedule is inactive" in text
    assert "06:30</td>" not in text


def test_schedule_pages_report_a_missing_worker(reader: Client, nightly: Schedule):
    for page in ("/schedules/", address(nightly)):
        assert "so schedules do not start" in text_of(reader, page)
    WorkerFactory()
    assert "so schedules do not start" not in text_of(reader, "/schedules/")


def test_schedule_page_lists_its_runs_and_their_pages_link_the_schedule(reader: Client, nightly: Schedule):
    Schedule.objects.update(next_at=timezone.now())
    (run,) = start_due()
    assert run.run_id in text_of(reader, address(nightly))
    run_page = text_of(reader, f"/load-runs/{run.run_id}/")
    assert f'by <a href="{address(nightly)}">schedule nightly</a>' in run_page


def test_schedule_pages_show_a_skipped_due_time_with_its_reason(reader: Client, nightly: Schedule):
    for _ in range(2):
        Schedule.objects.update(next_at=timezone.now())
        start_due()
    run = LoadRun.objects.get()
    for page in ("/schedules/", address(nightly)):
        assert f"load run {run.run_id} was still queued" in text_of(reader, page)


def test_schedule_page_shows_its_changes_with_the_user(operator: Client, nightly: Schedule):
    operator.post(address(nightly, "edit/"), typed(operator, nightly, cron="0 7 * * *"))
    read = words(text_of(operator, address(nightly)))
    assert "eve schedule nightly in" in read
    assert "30 6 * * 1-5 → 0 7 * * *" in read


# --- waiting for data -----------------------------------------------------------------------------------


@pytest.fixture
def condition(airport: TargetDataset) -> dict[str, str]:
    """Return the fields of a schedule that waits for the file of the airports."""
    return {"wait_for": "files", "wait_source": str(airport.generated_from.key), "wait_minutes": "30"}


def test_a_schedule_that_waits_for_files_is_created_by_its_form(operator: Client, condition: dict[str, str]):
    operator.post("/schedules/new/", GIVEN | condition | {"wait_then": "start"})
    wait = {"for": "files", "source": condition["wait_source"], "minutes": 30, "then": "start"}
    assert Schedule.objects.get().wait == wait


def test_wait_condition_of_a_schedule_is_edited_and_removed(
    operator: Client, nightly: Schedule, condition: dict[str, str]
):
    operator.post(address(nightly, "edit/"), typed(operator, nightly, **condition))
    assert Schedule.objects.get().wait["minutes"] == 30
    operator.post(address(nightly, "edit/"), typed(operator, nightly, wait_for="", wait_source=""))
    assert Schedule.objects.get().wait == {}


def test_only_files_and_tables_are_offered_to_wait_for(operator: Client, condition: dict[str, str]):
    SourceDatasetFactory(system=SystemFactory(kind="kafka"), format="kafka", name="events")
    page = read(operator, "/schedules/new/")
    assert condition["wait_source"] in page
    assert ".events" not in page


def test_a_condition_without_its_source_is_refused_at_its_field(operator: Client, condition: dict[str, str]):
    answer = operator.post("/schedules/new/", GIVEN | condition | {"wait_source": ""})
    assert answer.status_code == 422
    assert 'id="id_wait_source_error"' in html_of(answer)


def test_page_of_a_waiting_schedule_shows_start_deadline_and_last_check(operator: Client, condition: dict[str, str]):
    operator.post("/schedules/new/", GIVEN | condition)
    schedule = Schedule.objects.get()
    Schedule.objects.update(next_at=timezone.now())
    start_due()
    assert "Not checked yet" in text_of(operator, address(schedule))
    check_waiting()
    read = words(text_of(operator, address(schedule)))
    assert re.search(r"Waiting since [\d: -]+ UTC ?, at most until [\d: -]+ UTC", read)
    assert re.search(r"Last check at [\d: -]+ UTC ?: ", read)
    assert "waiting for its data since" in words(text_of(operator, "/schedules/"))


# --- edits ------------------------------------------------------------------------------------------------


def test_a_schedule_of_vacuums_is_created_and_edited_with_its_retention(operator: Client, airport: TargetDataset):
    operator.post("/schedules/new/", GIVEN | {"kind": "vacuum", "retention_hours": "336"})
    schedule = Schedule.objects.get()
    assert (schedule.kind, schedule.retention_hours) == ("vacuum", 336)
    vacuum = {"kind": "vacuum"}
    short = operator.post(address(schedule, "edit/"), typed(operator, schedule, retention_hours="24", **vacuum))
    assert short.status_code == 422
    operator.post(address(schedule, "edit/"), typed(operator, schedule, retention_hours="200", **vacuum))
    schedule.refresh_from_db()
    assert (schedule.kind, schedule.retention_hours) == ("vacuum", 200)


def test_schedule_pages_disable_buttons_without_the_permission_to_start_loads(reader: Client, nightly: Schedule):
    for page in ("/schedules/", address(nightly)):
        text = text_of(reader, page)
        assert 'disabled title="Ask for the operator role to edit schedules"' in text
    for page in ("edit/", "delete/"):
        assert reader.get(address(nightly, page)).status_code == 403
        assert reader.post(address(nightly, page)).status_code == 403
    assert reader.post(address(nightly, "run/")).status_code == 403
    assert reader.post("/schedules/new/", GIVEN).status_code == 403


def test_schedule_is_created_from_its_form(operator: Client, airport: TargetDataset):
    given = GIVEN | {"scope": "dataset", "dataset": " rawcore.rc_air_airport ", "target_only": "on"}
    answer = operator.post("/schedules/new/", given)
    schedule = Schedule.objects.get()
    assert answer.url == address(schedule)
    assert Scope.from_json(schedule.scope) == Scope(DATASET, "rawcore.rc_air_airport", target_only=True)
    assert (schedule.cron, schedule.time_zone, schedule.active) == ("30 6 * * 1-5", "Europe/Berlin", True)


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({"name": ""}, "id_name", "Enter a name"),
        ({"cron": ""}, "id_cron", "Enter a schedule, for example"),
        ({"cron": "0 25 * * *"}, "id_cron", "The hour cannot be &quot;25&quot;"),
        ({"cron": "0 6 * *"}, "id_cron", "five fields"),
        ({"time_zone": "berlin"}, "id_time_zone", "did you mean Europe/Berlin?"),
        ({"scope": "schema"}, "id_schema", "Choose a schema"),
        ({"scope": "dataset", "dataset": "rawcore.rc_air_airprt"}, "id_dataset", "did you mean"),
    ],
)
def test_invalid_schedule_is_refused_at_its_field_and_keeps_the_input(
    operator: Client, airport: TargetDataset, given: dict, field: str, message: str
):
    answer = operator.post("/schedules/new/", GIVEN | {"name": "<mine>", "allow_empty": "on"} | given)
    text = html_of(answer)
    assert answer.status_code == 422
    assert not Schedule.objects.exists()
    field_error = text[text.index(f'id="{field}_error"') :]
    assert message in field_error[: field_error.index("</div>")]
    for name, value in (GIVEN | {"name": "<mine>"} | given).items():
        if name in ("name", "cron", "time_zone", "dataset"):
            escaped = value.replace("<", "&lt;").replace(">", "&gt;")
            assert f'name="{name}"' in text
            assert not escaped or f'value="{escaped}"' in text
    assert re.search(r'name="allow_empty"[^>]*checked', text)


def test_duplicate_schedule_name_is_refused_at_the_name(operator: Client, nightly: Schedule):
    text = html_of(operator.post("/schedules/new/", GIVEN))
    assert "There is a schedule nightly already." in text[text.index('id="id_name_error"') :]


def test_schedule_edit_saves_the_changed_fields(operator: Client, nightly: Schedule):
    given = typed(operator, nightly, cron="0 7 * * *", scope="dataset", dataset="rawcore.rc_air_airport")
    assert operator.post(address(nightly, "edit/"), given).url == address(nightly)
    nightly.refresh_from_db()
    assert (nightly.cron, nightly.scope["name"], nightly.version) == ("0 7 * * *", "rawcore.rc_air_airport", 2)


def test_edit_form_contains_the_current_values(operator: Client, nightly: Schedule):
    update_schedule(schedule=nightly, expected_version=1, scope=Scope(DATASET, "rawcore.rc_air_airport"))
    text = text_of(operator, address(nightly, "edit/"))
    assert 'name="scope" value="dataset" checked' in text
    assert re.search(r'name="dataset" value="rawcore.rc_air_airport"', text)


def test_a_schedule_of_a_selection_is_edited(operator: Client, nightly: Schedule):
    selection = Scope(SELECTION, "layer:rawcore layer:raw", exclude="layer:raw")
    update_schedule(schedule=nightly, expected_version=1, scope=selection)
    given = {"scope": "selection", "selection": selection.name, "exclude": "layer:rawcore"}
    operator.post(address(nightly, "edit/"), typed(operator, nightly, **given))
    nightly.refresh_from_db()
    assert Scope.from_json(nightly.scope) == replace(selection, exclude="layer:rawcore")


def test_selection_without_a_match_is_refused_at_its_field(operator: Client, nightly: Schedule):
    given = typed(operator, nightly, scope="selection", selection="tag:nothing")
    page = html_of(operator.post(address(nightly, "edit/"), given))
    field = page.partition('class="for-selection"')[2].partition('class="for-target-only"')[0]
    assert "No dataset is selected by tag:nothing" in words(field)


def test_concurrent_edit_shows_both_versions_and_saves_only_own_changes(operator: Client, nightly: Schedule):
    mine = typed(operator, nightly, name="mine")
    update_schedule(schedule=nightly, expected_version=1, name="theirs", cron="0 7 * * *")
    answer = operator.post(address(nightly, "edit/"), mine)
    read = words(html_of(answer))
    assert answer.status_code == 409
    assert "nightly theirs mine" in read
    resent = dict(re.findall(r'<input type="hidden" name="([\w-]+)" value="([^"]*)"', html_of(answer)))
    operator.post(address(nightly, "edit/"), resent)
    nightly.refresh_from_db()
    assert (nightly.name, nightly.cron, nightly.version) == ("mine", "0 7 * * *", 3)


def test_deletion_of_a_schedule_asks_for_confirmation(operator: Client, nightly: Schedule):
    assert "Delete this schedule?" in text_of(operator, address(nightly, "delete/"))
    assert operator.post(address(nightly, "delete/"), {"version": "1"}).url == "/schedules/"
    assert not Schedule.objects.exists()


def test_deletion_of_a_schedule_changed_meanwhile_is_refused(operator: Client, nightly: Schedule):
    update_schedule(schedule=nightly, expected_version=1, cron="0 7 * * *")
    answer = operator.post(address(nightly, "delete/"), {"version": "1"})
    assert answer.status_code == 409
    assert "Delete anyway" in html_of(answer)
    operator.post(address(nightly, "delete/"), {"version": "2"})
    assert not Schedule.objects.exists()


def test_run_now_redirects_to_its_run(operator: Client, nightly: Schedule):
    answer = operator.post(address(nightly, "run/"))
    run = LoadRun.objects.get()
    assert answer.url == f"/load-runs/{run.run_id}/"
    assert (run.schedule, run.requested_by.username) == (nightly, "eve")
    assert "by eve, from" in words(text_of(operator, answer.url))


def test_run_now_is_refused_while_the_previous_run_is_queued(operator: Client, nightly: Schedule):
    operator.post(address(nightly, "run/"))
    assert 'disabled title="Load run' in text_of(operator, address(nightly))
    text = html_of(operator.post(address(nightly, "run/"), follow=True))
    assert "of this schedule is still queued" in text
    assert LoadRun.objects.count() == 1


# --- preview of the input ------------------------------------------------------------------------------------


def test_preview_shows_the_next_times_of_a_typed_cron_line(reader: Client):
    text = html_of(reader.get("/schedules/times/", {"cron": "0 22 L * *", "time_zone": "UTC"}))
    assert "At 22:00 on the last day of every month" in text
    assert text.count("22:00</td>") == 5
    assert "<html" not in text


def test_preview_shows_the_error_of_a_typed_cron_line(reader: Client):
    text = html_of(reader.get("/schedules/times/", {"cron": "@daily", "time_zone": "UTC"}))
    assert "@daily is written 0 0 * * * here" in text
    assert "The next five times appear here" in html_of(reader.get("/schedules/times/"))
    assert reader.get("/schedules/times/", {"cron": "0" * 200, "time_zone": "\x00"}).status_code == 200
