"""Walk of an operator: preview, execute, cancel, resume; load runs, schedules, leases, drift."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from architecture.models import Execution, Lease
from architecture.services.environments import current_environment
from architecture.services.leases import Holder, take_leases
from loader.models import DatasetRun, LoadRun, Schedule
from metadata.models import TargetDataset
from tests.architecture.refreshes import observed
from tests.architecture.world import Killed, World
from tests.e2e.walks.conftest import Walker, at_both_widths
from tests.elevata.web.pages import address, rename
from tests.loader.factories import WorkerFactory

pytestmark = [pytest.mark.browser, pytest.mark.services]


@pytest.fixture
def olga(site: str, world: World, width: str, walkers: Callable[..., Walker]) -> Walker:
    """Return a walker of an operator, beside a running worker."""
    WorkerFactory()
    return walkers(world.operator, width)


def newest() -> Execution:
    return Execution.objects.select_related("environment", "report__environment", "preview").latest("pk")


def state(olga: Walker, text: str) -> None:
    expect(olga.page.locator("#execution").get_by_role("status").first).to_have_text(text)


@pytest.mark.core
def test_a_report_is_previewed_executed_cancelled_and_resumed(olga: Walker, world: World):
    rename(world, "full_name", "display_name")
    report = world.report()
    olga.go(address(report))
    olga.use("button", "Scan and preview")
    olga.page.wait_for_url(re.compile("/refreshes/"))
    observed(world)
    olga.page.wait_for_url(f"{olga.site}{address(report)}#preview")
    expect(olga.page.locator("#preview")).to_contain_text("RENAME COLUMN")
    olga.picture("operator-preview")
    olga.use("button", "Execute 2 steps")
    state(olga, "queued")

    olga.use("link", "Cancel…")
    olga.use("button", re.compile("^Cancel"))
    state(olga, "canceled")
    olga.use("button", "Resume")
    state(olga, "queued")
    with pytest.raises(Killed):
        world.work(newest(), dies_at=1)
    expect(olga.page.locator("#execution")).to_contain_text("1 of 2 done")
    Execution.objects.filter(pk=newest().pk).update(
        status="lost", error={"code": "WORKER_LOST", "message": "the worker is gone"}
    )
    state(olga, "lost")
    expect(olga.page.locator("#execution")).to_contain_text("the worker is gone")
    olga.picture("operator-lost")
    olga.use("button", "Resume")
    state(olga, "queued")
    world.work(newest())
    state(olga, "succeeded")
    expect(olga.page.get_by_role("link", name="Download record")).to_be_visible()
    olga.picture("operator-executed")
    assert world.warehouse.commits.count(world.warehouse.commits[-1]) == 1


@at_both_widths
def test_a_load_run_is_watched_as_a_graph(olga: Walker, warehouse: TargetDataset):
    olga.go("/load-runs/")
    olga.page.locator('#rows a[href="/load-runs/busy/"]').first.focus()
    olga.press("Enter")
    link = olga.page.locator("[data-graph]").get_by_role("link", name=re.compile("^rc_air_airport, "))
    expect(link).to_have_accessible_name(re.compile("queued"))
    olga.picture("operator-run")
    DatasetRun.objects.filter(run__run_id="busy", dataset_key=warehouse.key).update(
        status="running", started_at=timezone.now()
    )
    expect(link).to_have_accessible_name(re.compile("running"))
    link.focus()
    # The graph runs to the right on a wide page, and downwards on a narrow page.
    olga.press("ArrowLeft")
    olga.press("ArrowUp")
    expect(link).not_to_be_focused()
    LoadRun.objects.filter(run_id="busy").update(status="succeeded", finished_at=timezone.now())
    expect(olga.page.locator("#run").get_by_role("status").first).to_have_text("succeeded")


def test_schedule_is_corrected_and_created(olga: Walker, warehouse: TargetDataset):
    olga.go("/schedules/")
    olga.use("link", "New schedule")
    olga.fill("Name", "nightly")
    olga.page.get_by_label("Repeat").select_option("by a cron expression")
    olga.fill("Cron expression", "61 6 * * *")
    olga.use("button", "Create schedule")
    expect(olga.page.locator(".field-error").first).to_be_visible()
    expect(olga.page.get_by_label("Name", exact=True)).to_have_value("nightly")
    olga.picture("operator-schedule-wrong")
    olga.page.get_by_label("Repeat").select_option("on days of the week")
    olga.page.get_by_label("Time", exact=True).fill("06:30")
    olga.page.get_by_role("checkbox", name="Mon", exact=True).press("Space")
    expect(olga.page.locator("#times")).to_contain_text("At 06:30 on Monday")
    expect(olga.page.get_by_label("Keep hours")).to_be_hidden()
    olga.use("button", "Create schedule")
    expect(olga.page.get_by_role("heading", name="nightly", exact=True)).to_be_visible()
    olga.picture("operator-schedule")
    assert Schedule.objects.get().cron == "30 6 * * 1"


def test_a_lease_is_broken_with_a_reason(olga: Walker, warehouse: TargetDataset):
    take_leases(environment=current_environment(), dataset_keys=[warehouse.key], holder=Holder("load run", "busy", 1))
    olga.go("/leases/")
    olga.use("link", "Break the lease of rawcore.rc_air_airport")
    expect(olga.page.get_by_label("Why")).to_be_focused()
    olga.press("Enter")
    expect(olga.page.get_by_text("Enter a reason. It is stored in the record.")).to_be_visible()
    olga.fill("Why", "its machine is switched off")
    olga.picture("operator-lease")
    olga.use("button", "Break lease")
    expect(olga.page.get_by_text("No active leases")).to_be_visible()
    assert Lease.objects.get(dataset_key=warehouse.key).holder_kind == ""


def test_home_shows_drift_and_links_to_the_differences(olga: Walker, world: World):
    key = next(key for key, shape in world.warehouse.shapes.items() if not shape.qualified_name.endswith("_hist"))
    world.warehouse.rename_behind_your_back(key, "full_name", "long_name")
    world.warehouse.show()
    olga.go("/")
    drifted: Any = re.compile("1.*drifted")
    expect(olga.page.get_by_role("link", name=drifted)).to_be_visible()
    olga.picture("operator-home")
    olga.use("link", drifted)
    expect(olga.page.get_by_text("long_name").first).to_be_visible()
    olga.picture("operator-drift")
