"""``manage.py reconcile``: update of a control database older than its warehouse, dataset by dataset."""

import json

import pytest

from architecture.models import AppliedDataset
from architecture.services.environments import current_environment
from elevata.accounts.actors import acting_as
from elevata.accounts.services.tokens import create_token
from elevata.accounts.services.users import create_user
from loader.management import run_command, waiting
from loader.models import DatasetRun, LoadRun
from loader.services.loads.load_runs import request_load_run
from loader.services.loads.load_work import perform_load_run
from tests.loader.services.maintenance.test_maintenance_runs import command

pytestmark = pytest.mark.django_db(transaction=True)

AIRPORT, VIEW = "rawcore.rc_air_airport", "stage.stg_air_airport"


@pytest.fixture(autouse=True)
def operator(airports, monkeypatch: pytest.MonkeyPatch):
    person = create_user(name="eve", roles=["operator", "editor", "admin"])
    with acting_as(person):
        monkeypatch.setenv("ELEVATA_TOKEN", create_token(user=person)[1])
        yield person


def loaded(runner, run_id: str) -> LoadRun:
    run = request_load_run(run_id=run_id, wake_worker=False).run
    return perform_load_run(run.pk, worker="w1", runner=runner)


@pytest.fixture
def local(make_runner, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run_command, "Runner", lambda holder: make_runner(holder))
    monkeypatch.setattr(waiting, "Runner", lambda holder: make_runner(holder))


def reconciled(*arguments: str) -> tuple[int, dict]:
    code, out, _ = command("reconcile", "--local", "--json", *arguments)
    return code, json.loads(out)


def test_reconcile_finds_no_differences_after_a_load(local, runner, script):
    loaded(runner, "first")
    leave_as_loaded(script)
    runner.close()
    assert reconciled("--check") == (0, {"adopt": [], "accept": [], "missing": []})


def test_reconcile_updates_a_restored_control_database_including_its_views(local, runner, script, operator):
    loaded(runner, "first")
    leave_as_loaded(script, newer=AIRPORT)
    script.add(held=3)
    runner.close()
    AppliedDataset.objects.filter(qualified_name__in=(VIEW, "raw.raw_air_airport")).delete()
    wanted = {"adopt": ["raw.raw_air_airport", VIEW], "accept": [AIRPORT], "missing": []}
    assert reconciled("--check") == (1, wanted)
    assert reconciled("--reason", "restored") == (0, wanted | {"left": {"adopt": [], "accept": [], "missing": []}})
    assert AppliedDataset.objects.filter(qualified_name=VIEW, environment=current_environment()).exists()
    assert LoadRun.objects.get(kind="accept").reason == "restored"


def test_reconcile_requires_a_reason_or_the_check_option(local):
    assert command("reconcile", "--local")[0] == 4


def leave_as_loaded(script, newer: str = "") -> None:
    """Set the versions of the stored tables to those that the runs recorded; ``newer`` gets a later one."""
    observed = script.told()["observed"]
    for table in observed.values():
        name = table["qualified_name"].removesuffix("_hist")
        row = DatasetRun.objects.filter(qualified_name=name).order_by("-finished_at").first()
        table["version"] = row.table_version_after if row is not None else table["version"]
        table["version"] += 3 * (name == newer)
    script.add(observed=observed)
