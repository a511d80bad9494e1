"""Page of a source: freshness, deliveries, refusals, schema history, and adding a reported column."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from loader.models import DatasetRun, LoadRun, Schedule
from loader.schedules.runs import start_due
from loader.schedules.services import create_schedule, update_schedule
from loader.selectors.source_state import held_marks
from metadata.domain.scope import DATASET, SELECTION, Scope
from metadata.models import SourceColumn, SourceDataset, System, TargetDataset
from metadata.services.sources import update_source_column
from tests.architecture.world import person as someone
from tests.elevata.web.forms import form_of, typed, words
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read, section
from tests.loader.factories import REFUSAL, DatasetRunFactory, EnvironmentFactory, LoadRunFactory
from tests.loader.views.sources.shop import HTMX, imported

pytestmark = pytest.mark.django_db


@pytest.fixture
def orders(editor: Client, shop: System) -> SourceDataset:
    """Return the orders of the shop with their targets, not loaded yet."""
    return imported(editor)


@pytest.fixture
def raw(orders: SourceDataset) -> TargetDataset:
    return TargetDataset.objects.get(name="raw_shop_orders")


def create_delivery(raw: TargetDataset, **row: object) -> DatasetRun:
    """Return the row of a raw dataset in a new run, finished now."""
    now = timezone.now()
    run = LoadRunFactory(status=row.get("status", "succeeded"), load_timestamp=row.pop("load_timestamp", now))
    return DatasetRunFactory(run=run, dataset=raw, started_at=now, finished_at=now, **row)


def page_of(client: Client, source: SourceDataset) -> str:
    return read(client, f"/sources/{source.key}/?show=now")


def freshness_of(client: Client, source: SourceDataset) -> str:
    return words(html_of(client.get(f"/sources/{source.key}/", headers=HTMX)))


def test_rows_ahead_of_the_mark_are_shown_and_found_by_health_until_a_load_has_none(
    editor: Client, orders: SourceDataset, raw: TargetDataset
):
    SourceDataset.objects.filter(pk=orders.pk).update(intake={"watermark": ["ordered at"]})
    create_delivery(raw, kind="raw", window={"from": None, "to": {"n": "4"}, "ahead": {"n": 2}})
    create_delivery(raw, kind="raw", status="failed")
    assert "The mark stays below rows that are far ahead." in words(page_of(editor, orders))
    (concern,) = held_marks()
    assert (concern.code, concern.subject) == ("held_mark", f"Source {orders}")
    assert "2 rows by n" in concern.text
    create_delivery(raw, kind="raw", window={"from": {"n": "4"}, "to": {"n": "5"}})
    assert "far ahead" not in words(page_of(editor, orders))
    assert held_marks() == []


# --- freshness -----------------------------------------------------------------------------------


def test_source_page_loads_the_freshness_separately(editor: Client, orders: SourceDataset):
    page = read(editor, f"/sources/{orders.key}/")
    assert 'hx-target="#freshness"' in page
    assert "Newest delivery" not in page


def test_freshness_names_the_newest_file(editor: Client, orders: SourceDataset):
    text = freshness_of(editor, orders)
    assert "orders.csv , 1 file, 79 bytes" in text
    assert "The delivery is not loaded yet" in text


def test_a_loaded_delivery_is_up_to_date(editor: Client, orders: SourceDataset, raw: TargetDataset):
    row = create_delivery(raw, counts={"rows": 2, "duplicates": 0})
    text = freshness_of(editor, orders)
    assert f"{row.finished_at:%Y-%m-%d %H:%M}" in text
    assert "not loaded yet" not in text


def test_freshness_reports_a_file_written_after_the_last_load(
    editor: Client, orders: SourceDataset, raw: TargetDataset, landing: Path
):
    create_delivery(raw)
    later = timezone.now().timestamp() + 60
    os.utime(landing / "orders.csv", (later, later))
    assert "A newer delivery is not loaded yet" in freshness_of(editor, orders)


def test_freshness_uses_the_start_of_a_load_and_not_its_timestamp(
    editor: Client, orders: SourceDataset, raw: TargetDataset
):
    create_delivery(raw, load_timestamp=datetime(2020, 1, 1, tzinfo=UTC))
    assert "not loaded yet" not in freshness_of(editor, orders)


def test_freshness_names_a_missing_file(editor: Client, orders: SourceDataset, landing: Path):
    (landing / "orders.csv").unlink()
    assert "orders.csv is not there" in freshness_of(editor, orders)


def test_freshness_shows_the_next_load_of_a_schedule_that_reads_the_source(editor: Client, orders: SourceDataset):
    with acting_as(someone("olga", Role.OPERATOR)):
        create_schedule(name="nightly", cron="0 6 * * *", scope=Scope(DATASET, "rawcore.rc_shop_orders"))
    assert "06:00:00 UTC nightly" in freshness_of(editor, orders)


def test_a_schedule_of_a_tag_that_reads_the_source_is_named(editor: Client, orders: SourceDataset, raw: TargetDataset):
    TargetDataset.objects.filter(pk=raw.pk).update(tags=["sales"])
    with acting_as(someone("olga", Role.OPERATOR)):
        create_schedule(name="nightly", cron="0 6 * * *", scope=Scope(SELECTION, "tag:sales"))
    assert "06:00:00 UTC nightly" in freshness_of(editor, orders)


def test_a_schedule_of_another_dataset_is_not_named(editor: Client, orders: SourceDataset, airport: TargetDataset):
    with acting_as(someone("olga", Role.OPERATOR)):
        create_schedule(name="nightly", cron="0 6 * * *", scope=Scope(DATASET, str(airport)))
    assert "no schedule loads it" in freshness_of(editor, orders)


def test_source_without_a_load_since_its_due_time_is_overdue(editor: Client, orders: SourceDataset):
    with acting_as(someone("olga", Role.OPERATOR)):
        create_schedule(name="nightly", cron="0 6 * * *")
    Schedule.objects.update(last_due_at=timezone.now() - timedelta(hours=1))
    assert "Overdue: no load succeeded since it was due" in freshness_of(editor, orders)


def test_source_is_not_overdue_while_its_schedule_waits_for_data(editor: Client, orders: SourceDataset):
    with acting_as(someone("olga", Role.OPERATOR)):
        create_schedule(name="nightly", cron="0 6 * * *", wait={"for": "files", "source": str(orders.key)})
    Schedule.objects.update(next_at=timezone.now())
    start_due()
    text = freshness_of(editor, orders)
    assert "which waits for its data now" in text
    assert "Overdue" not in text


def test_source_of_an_inactive_schedule_is_not_overdue(editor: Client, orders: SourceDataset):
    with acting_as(someone("olga", Role.OPERATOR)):
        schedule = create_schedule(name="nightly", cron="0 6 * * *")
        update_schedule(schedule=schedule, expected_version=schedule.version, active=False)
    Schedule.objects.update(last_due_at=timezone.now())
    assert "Overdue" not in freshness_of(editor, orders)


# --- deliveries and refusals ---------------------------------------------------------------------


def test_deliveries_are_listed_with_their_counts(editor: Client, orders: SourceDataset, raw: TargetDataset):
    row = create_delivery(raw, counts={"rows": 1200, "duplicates": 3, "files": 2})
    text = words(section(page_of(editor, orders), "deliveries-head"))
    assert row.run.run_id in text
    assert "2 1,200 3" in text


def test_refusals_are_counted_by_reason_with_examples(editor: Client, orders: SourceDataset, raw: TargetDataset):
    for _ in range(2):
        row = create_delivery(raw, status="failed", counts={}, error=REFUSAL)
    refusals = section(page_of(editor, orders), "refusals-head")
    assert f'href="/load-runs/{row.run.run_id}/"' in refusals
    text = words(refusals)
    assert f"{REFUSAL['code']} 2 times, last by the load of all datasets" in text
    assert str(REFUSAL["samples"][0]) in text


def test_examples_of_a_classified_column_are_not_shown(editor: Client, orders: SourceDataset, raw: TargetDataset):
    create_delivery(
        raw, status="failed", counts={}, error=REFUSAL | {"column": "customer", "samples": ["secret-value"]}
    )
    assert "secret-value" in page_of(editor, orders)
    TargetDataset.objects.get(pk=raw.pk).columns.filter(name="customer").update(pii=True)
    SourceColumn.objects.filter(dataset=orders, name="customer").update(pii=True)
    assert "secret-value" not in page_of(editor, orders)


# --- schema history ------------------------------------------------------------------------------


@pytest.fixture
def reported_column(orders: SourceDataset, raw: TargetDataset) -> DatasetRun:
    """Create a load that reported a column missing in the contract."""
    return create_delivery(raw, drift=[{"name": "vip", "type": "boolean"}])


def test_reported_column_links_the_form_to_add_it(editor: Client, orders: SourceDataset, reported_column: DatasetRun):
    page = section(page_of(editor, orders), "schema-head")
    assert f"/sources/{orders.key}/columns/add/?name=vip&amp;type=boolean" in page
    assert reported_column.run.run_id in page


def test_reported_column_has_no_action_for_a_viewer(viewer: Client, orders: SourceDataset, reported_column: DatasetRun):
    page = section(page_of(viewer, orders), "schema-head")
    assert "vip" in page
    assert "/columns/add/" not in page


def test_add_column_form_is_filled_with_the_reported_column(
    editor: Client, orders: SourceDataset, reported_column: DatasetRun
):
    fields = form_of(read(editor, f"/sources/{orders.key}/columns/add/?name=vip&type=boolean"), having="name")
    assert (fields["name"], fields["type"], fields["nullable"]) == (["vip"], ["boolean"], ["on"])


def add(client: Client, source: SourceDataset, **over: str):
    address = f"/sources/{source.key}/columns/add/"
    return client.post(address, typed(read(client, f"{address}?name=vip&type=boolean"), having="name", **over))


def test_an_added_column_is_in_the_contract_and_no_longer_reported(
    editor: Client, orders: SourceDataset, reported_column: DatasetRun
):
    assert add(editor, orders).url == f"/sources/{orders.key}/generate/"
    column = SourceColumn.objects.get(dataset=orders, name="vip")
    assert (str(column.type), column.nullable, column.key_ordinal) == ("boolean", True, None)
    page = section(page_of(editor, orders), "schema-head")
    assert "/columns/add/" not in page
    assert "shop.orders.vip" in page


@pytest.mark.parametrize(
    ("over", "field"), [({"type": "nonsense"}, "type"), ({"name": "customer"}, "name"), ({"name": ""}, "name")]
)
def test_invalid_column_is_refused_at_its_field(editor: Client, orders: SourceDataset, over: dict, field: str):
    answer = add(editor, orders, **over)
    assert answer.status_code == 422
    assert f'id="id_{field}_error"' in html_of(answer)
    assert orders.columns.count() == 4


def test_source_page_offers_to_restore_a_retired_column_that_is_delivered_again(
    editor: Client, orders: SourceDataset, raw: TargetDataset
):
    amount = orders.columns.get(name="amount")
    with acting_as(someone("bob", Role.EDITOR)):
        update_source_column(source_column=amount, expected_version=amount.version, active=False)
    create_delivery(raw, drift=[{"name": "amount", "type": "decimal(4,2)"}])
    assert "Restore column" in section(page_of(editor, orders), "schema-head")


def test_changes_of_columns_are_listed(editor: Client, orders: SourceDataset):
    amount = orders.columns.get(name="amount")
    with acting_as(someone("bob", Role.EDITOR)):
        update_source_column(source_column=amount, expected_version=amount.version, type="decimal(20,2)")
    text = words(section(page_of(editor, orders), "schema-head"))
    assert "bob source column shop.orders.amount changed" in text


def test_source_page_offers_the_first_load(operator: Client, orders: SourceDataset):
    page = page_of(operator, orders)
    assert "No loads yet" in page
    assert f'action="/sources/{orders.key}/load/"' in page


def test_first_load_is_not_offered_without_the_permission_to_start_loads(editor: Client, orders: SourceDataset):
    page = page_of(editor, orders)
    assert "No loads yet" in page
    assert "Start the first load" not in page


def test_deliveries_exclude_runs_of_other_environments(editor: Client, orders: SourceDataset, raw: TargetDataset):
    row = create_delivery(raw)
    LoadRun.objects.update(environment=EnvironmentFactory(name="elsewhere"))
    assert row.run.run_id not in page_of(editor, orders)
