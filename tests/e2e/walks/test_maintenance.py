"""Walk of maintenance by keyboard: revert, prune and check a history."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from loader.models import LoadRun, ReadRequest
from metadata.models import TargetDataset
from tests.architecture.world import World
from tests.e2e.walks.conftest import Walker
from tests.loader.factories import DatasetRunFactory, LoadRunFactory, WorkerFactory

pytestmark = [pytest.mark.browser, pytest.mark.services]


@pytest.fixture
def olga(site: str, world: World, width: str, walkers: Callable[..., Walker]) -> Walker:
    """Return a walker of an operator, beside a running worker."""
    WorkerFactory()
    return walkers(world.operator, width)


@pytest.fixture
def history(world: World) -> TargetDataset:
    """Return a historized dataset that a run has written."""
    dataset = TargetDataset.objects.filter(historize=True).order_by("pk").first()
    DatasetRunFactory(run=LoadRunFactory(run_id="r1"), dataset=dataset, sequence=1)
    return dataset


def test_a_run_is_reverted_and_a_history_pruned_and_checked(olga: Walker, history: TargetDataset):
    olga.go("/load-runs/r1/")
    olga.use("link", "Revert run…")
    expect(olga.page.get_by_role("heading", level=1)).to_have_text("Revert this load run?")
    olga.picture("maintenance-revert")
    olga.fill("Why", "The source sent test data")
    olga.use("button", "Revert run")
    olga.page.wait_for_url(re.compile(r"/load-runs/(?!r1/)"))
    assert LoadRun.objects.get(kind="revert").reason == "The source sent test data"

    olga.go(f"/datasets/{history.key}/history/")
    olga.use("link", "Prune…")
    expect(olga.page.get_by_label("Ended before")).to_be_visible()
    olga.picture("maintenance-prune")
    olga.fill("Ended before", "2024-01-31")
    olga.fill("Why", "Kept for two years")
    olga.use("button", "Prune history")
    olga.page.wait_for_url(re.compile(r"/load-runs/"))
    assert LoadRun.objects.get(kind="prune").details["asked"]["ended_before"].startswith("2024-01-31")

    olga.go(f"/datasets/{history.key}/history/check/")
    olga.use("button", "Check history")
    olga.page.wait_for_url(re.compile(r"/reads/"))
    finding = {
        "code": "OVERLAP",
        "message": "versions of a key overlap",
        "count": 3,
        "samples": [{"key": {"id": "7"}, "start": "2024-01-01"}],
    }
    ReadRequest.objects.filter(kind="check").update(
        status="succeeded", answer={"versions": 70, "findings": [finding], "rawcore_behind": False}
    )
    expect(olga.page.get_by_text("versions of a key overlap")).to_be_visible()
    olga.picture("maintenance-check")
