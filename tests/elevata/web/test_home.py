"""Home page: metadata, running work, failures, and numbers that are loaded after the page."""

import re
from uuid import uuid4

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from architecture.models import Observation
from architecture.services.environments import current_environment
from architecture.services.leases import Holder, take_leases
from elevata.accounts.roles import Role
from elevata.jobs.models import Job
from loader.models import LoadRun, Schedule
from loader.schedules.services import create_schedule
from loader.selectors import loads
from metadata.models import TargetDataset
from tests.architecture.services.test_reports import rename
from tests.architecture.world import World, person
from tests.elevata.web.html import html_of
from tests.loader.factories import DatasetRunFactory, LoadRunFactory, WorkerFactory, loaded

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def clear_cache() -> None:
    cache.clear()


def text_of(client: Client, address: str = "/") -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return html_of(answer)


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


# --- the page -------------------------------------------------------------------------------------------


def test_an_empty_home_says_what_to_do_first(reader: Client):
    text = text_of(reader)
    assert "/help/docs/use/first_file.md" in text
    assert "manage.py" not in text
    assert "make serve" not in text
    assert "No worker is running" in text
    assert "No load runs yet" in text
    assert "No schedules yet." in text
    assert "drift: nothing applied yet" in text_of(reader, "/home/warehouse/")


def test_home_page_checklist_marks_done_steps_and_disappears_after_the_first_load(
    reader: Client, airport: TargetDataset
):
    text = words(text_of(reader))
    assert "done Add a system done Add a source done Generate its datasets open Create a change report" in text
    loaded(airport, run_id="good")
    assert "To the first load" not in text_of(reader)


def test_home_page_counts_the_metadata_and_lists_the_newest_runs(reader: Client, warehouse: TargetDataset):
    WorkerFactory(name="worker@host")
    text = text_of(reader)
    assert "2 systems 2 Raw 2 Stage 2 Rawcore 2 History" in words(text)
    assert "For you nothing Under way" in words(text)
    assert "No worker is running" not in text
    assert "worker@host" in text
    latest = text.split('id="latest-head"')[1]
    assert latest.index("/load-runs/busy/") < latest.index("/load-runs/good/")


def test_home_page_begins_with_failures_and_what_waits_and_is_due(reader: Client, warehouse: TargetDataset):
    text = text_of(reader)
    places = [text.index(f'id="{head}-head"') for head in ("trouble", "state", "coming", "latest")]
    assert places == sorted(places)
    assert places[-1] < text.index('class="tiles"') < text.index('id="home-charts"')


def test_runs_on_home_are_named_by_what_they_load_and_who_asked(reader: Client, airport: TargetDataset):
    run = loaded(airport, run_id="good")
    LoadRun.objects.update(scope={"kind": "all"})
    Job.objects.update(requester="nightly")
    latest = text_of(reader).split('id="latest-head"')[1]
    assert "Load of all datasets by nightly" in words(latest)
    assert f'<span class="mono nowrap">{run.run_id}</span>' in latest


def test_home_page_says_how_many_rows_a_run_quarantined(reader: Client, airport: TargetDataset):
    run = loaded(airport, run_id="good")
    DatasetRunFactory(run=run, dataset=airport, dataset_key=uuid4(), kind="raw", counts={"quarantined": 3, "rows": 10})
    assert "succeeded 3 rows quarantined" in words(text_of(reader))


def test_home_page_says_that_no_schedule_is_active(reader: Client, airport: TargetDataset):
    create_schedule(name="off", cron="* * * * *", active=False)
    assert "No schedule is active." in text_of(reader)


def test_pages_without_a_worker_name_administrators_instead_of_a_command(reader: Client):
    person("zoe", Role.ADMIN)
    for address in ("/", "/load-runs/?start="):
        text = words(text_of(reader, address))
        assert re.search(r"Ask an administrator of this installation \(.*zoe.*\) to start one", text)
        assert "make serve" not in text


def test_start_load_button_is_disabled_without_the_operator_role(operator: Client, reader: Client):
    assert '<a class="btn btn-primary" href="/load-runs/?start=#start">' in text_of(operator)
    assert 'disabled title="Ask for the operator role to start loads"' in text_of(reader)


# --- now --------------------------------------------------------------------------------------------------


def test_home_page_refreshes_itself_only_while_a_run_is_running(reader: Client):
    LoadRunFactory(run_id="done")
    assert "/home/now/" not in text_of(reader)
    LoadRunFactory(run_id="busy", status="running")
    text = text_of(reader)
    assert 'hx-trigger="every 2s"' in text
    state = re.search(r"/home/now/\?seen=(\w+)", text)[1]
    assert reader.get(f"/home/now/?seen={state}").status_code == 204
    LoadRun.objects.filter(run_id="busy").update(status="succeeded", finished_at=timezone.now())
    answer = reader.get(f"/home/now/?seen={state}")
    assert answer.status_code == 200
    assert "hx-trigger" not in html_of(answer)


def test_schedules_that_are_next_due_are_listed_in_their_order(reader: Client, airport: TargetDataset):
    for name, cron in (("late", "0 0 1 1 *"), ("soon", "* * * * *"), ("off", "* * * * *")):
        create_schedule(name=name, cron=cron, active=name != "off")
    coming = text_of(reader).split('id="coming-head"')[1].split("</section>")[0]
    assert coming.index(">soon<") < coming.index(">late<")
    assert ">off<" not in coming


def test_leases_in_force_are_counted(reader: Client):
    assert "0 datasets" in words(text_of(reader))
    keys = [f"{n:032x}" for n in range(3)]
    take_leases(environment=current_environment(), dataset_keys=keys, holder=Holder("load run", "busy", 1))
    text = text_of(reader)
    assert '<a href="/leases/">3 datasets</a>' in text
    assert "do not respond" not in text


def test_home_page_lists_queued_executions(reader: Client, world: World):
    rename(world, "full_name", "display_name")
    execution = world.queued()
    assert f"execution {execution.pk} queued" in words(text_of(reader))


# --- troubles -----------------------------------------------------------------------------------------------


def test_home_page_shows_the_error_of_a_failed_last_load(reader: Client, airport: TargetDataset):
    loaded(airport, run_id="good")
    run = LoadRunFactory(run_id="bad", status="failed")
    DatasetRunFactory(run=run, dataset=airport, status="failed", counts={}, error={"message": "it broke"})
    text = text_of(reader)
    assert "it broke" in text
    assert f"/load-runs/bad/?dataset={airport.key}#dataset-{airport.key}" in text


def test_home_page_shows_a_failed_load_until_a_later_success(reader: Client, airport: TargetDataset):
    run = LoadRunFactory(run_id="bad", status="failed")
    DatasetRunFactory(run=run, dataset=airport, status="failed", counts={}, error={"message": "it broke"})
    DatasetRunFactory(run=LoadRunFactory(run_id="busy", status="running"), dataset=airport, status="running")
    assert "it broke" in text_of(reader)
    loaded(airport, run_id="good")
    assert "it broke" not in text_of(reader)


def test_home_page_shows_an_active_schedule_with_a_blocked_last_run(reader: Client, airport: TargetDataset):
    schedule = create_schedule(name="nightly", cron="0 6 * * *")
    run = LoadRunFactory(run_id="bad", status="blocked", error={"message": "2 pending changes need a person"})
    Schedule.objects.update(last_run=run)
    assert "schedule nightly blocked" in words(text_of(reader))
    assert "2 pending changes need a person" in text_of(reader)
    Schedule.objects.filter(pk=schedule.pk).update(active=False, next_at=None)
    assert "schedule nightly" not in words(text_of(reader))


# --- the warehouse, after the page ----------------------------------------------------------------------------


def test_home_page_loads_the_warehouse_numbers_after_the_page(reader: Client, warehouse: TargetDataset):
    page = text_of(reader)
    assert 'hx-get="/home/warehouse/" hx-trigger="load"' in page
    assert "56,260 open versions" not in words(page)
    part = text_of(reader, "/home/warehouse/")
    assert "56,260 open versions" in words(part)
    assert "<html" not in part


def test_home_page_drift_counts_link_to_the_datasets_of_each_state(reader: Client, world: World):
    world.warehouse.show()
    read = words(text_of(reader, "/home/warehouse/"))
    assert re.search(r"(\d+) in sync 0 drifted 0 unknown", read)
    for state in ("in_sync", "drifted", "unknown"):
        assert f"/drift/?state={state}" in text_of(reader, "/home/warehouse/")


def test_a_table_that_is_gone_counts_as_drifted(reader: Client, world: World):
    world.warehouse.show()
    before = loads.drift_glance(current_environment())
    Observation.objects.filter(table_key=current_environment().applied_datasets.first().dataset_key).update(
        document=None, observed_at=timezone.now()
    )
    after = loads.drift_glance(current_environment())
    assert (before.drifted, after.drifted) == (0, 1)
    assert after.total == before.total


def test_drift_counts_are_cached_while_states_are_unchanged(
    world: World, django_assert_num_queries: DjangoAssertNumQueries
):
    world.warehouse.show()
    environment = current_environment()
    loads.drift_glance(environment)
    # Only the newest times of both states.
    with django_assert_num_queries(2):
        loads.drift_glance(environment)
