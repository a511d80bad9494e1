"""Copy runs: requests by users, after loads and after failures; manifests; states."""

import io
import json
from datetime import timedelta
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.utils import timezone

from architecture.services.environments import current_environment
from architecture.services.states import write_applied
from elevata.accounts.actors import acting_as
from elevata.accounts.cli import CommandExit
from elevata.accounts.services.tokens import create_token
from elevata.accounts.services.users import create_user
from elevata.jobs.models import Job
from loader.contract.refusals import Refusal
from loader.contract.run_states import COPY
from loader.management import run_command
from loader.models import CopyState, LoadRun
from loader.services.copies.requests import request_copy, request_failed_copies
from loader.services.loads.load_runs import request_load_run
from loader.services.loads.load_work import perform_load_run
from metadata.models import DatasetCopy, System, TargetDataset
from metadata.selectors.dataset_states import dataset_state
from metadata.services.copies import create_copy, delete_copy, update_copy
from metadata.services.datasets.targets import update_target_column
from metadata.services.sources import create_system, update_system

pytestmark = pytest.mark.django_db(transaction=True)

AIRPORT = "rawcore.rc_air_airport"
BROKEN = {"code": "COPY_FOREIGN", "message": "it is another table"}


@pytest.fixture
def eve(airports):
    person = create_user(name="eve", roles=["operator", "editor", "admin"])
    with acting_as(person):
        yield person


@pytest.fixture(autouse=True)
def eves_token(eve, monkeypatch):
    monkeypatch.setenv("ELEVATA_TOKEN", create_token(user=eve)[1])


@pytest.fixture
def bi(eve) -> System:
    return create_system(
        name="BI", short_name="bi", kind="jdbc", location="postgresql://bi@db:5432/bi", secret="ELEVATA_SOURCE_BI"
    )


@pytest.fixture
def lake(eve) -> System:
    return create_system(name="L", short_name="lake", kind="duckdb", location="{{ data_dir }}/copies/bi.duckdb")


def airport() -> TargetDataset:
    return TargetDataset.objects.get(schema__name="rawcore", name="rc_air_airport")


def perform(run: LoadRun, runner) -> LoadRun:
    return perform_load_run(run.pk, worker="w1", runner=runner)


def perform_copy(runner, **options) -> LoadRun:
    return perform(request_copy(dataset=AIRPORT, wake_worker=False, **options).run, runner)


def state() -> CopyState:
    return CopyState.objects.get()


def command(*arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    try:
        call_command(*arguments, stdout=out, stderr=io.StringIO())
    except CommandExit as ended:
        return ended.returncode, out.getvalue() + str(ended)
    return 0, out.getvalue()


@pytest.fixture
def local(make_runner, monkeypatch):
    monkeypatch.setattr(run_command, "Runner", make_runner)


def test_load_queues_the_copies_of_its_datasets(bi, runner, script):
    create_copy(dataset=airport(), to=bi)
    perform(request_load_run(run_id="first", wake_worker=False).run, runner)
    run = LoadRun.objects.get(kind=COPY)
    assert (run.scope["name"], run.status, run.requested_by, run.reason) == (AIRPORT, "queued", None, "after run first")
    assert perform(run, runner).status == "succeeded"
    assert (state().status, state().version, state().row_count, state().table) == ("copied", 5, 3, AIRPORT)
    perform(request_load_run(run_id="second", wake_worker=False).run, runner)
    assert LoadRun.objects.filter(kind=COPY).count() == 2


def test_load_without_copies_queues_nothing(eve, runner):
    perform(request_load_run(wake_worker=False).run, runner)
    assert not LoadRun.objects.filter(kind=COPY).exists()


def test_manifest_names_targets_columns_and_secrets(bi, lake, runner, script):
    create_copy(dataset=airport(), to=bi, table="mart.airport", mode="changes")
    create_copy(dataset=airport(), to=lake)
    assert perform_copy(runner).status == "succeeded"
    (request,) = script.seen("copy")
    first, second = request["body"]["targets"]
    assert (first["kind"], first["table"], first["mode"]) == ("jdbc", "mart.airport", "changes")
    assert first["database"]["secret"] == "ELEVATA_SOURCE_BI"
    assert second["location"].endswith("/copies/bi.duckdb")
    types = {column["name"]: column["physical"] for column in first["columns"]}
    assert "name" in types
    assert set(types.values()) >= {"TEXT"}


def test_sensitive_columns_are_left_out_until_a_report_with_them_is_executed(bi, runner, script):
    column = airport().columns.get(name="name")
    update_target_column(column=column, expected_version=column.version, pii=True)
    copy = create_copy(dataset=airport(), to=bi)
    perform_copy(runner)
    names = [column["name"] for column in script.seen("copy")[-1]["body"]["targets"][0]["columns"]]
    assert "name" not in names
    assert "row_hash" not in " ".join(names)
    assert state().findings == []
    update_copy(copy=copy, expected_version=copy.version, sensitive="include")
    perform_copy(runner)
    names = [column["name"] for column in script.seen("copy")[-1]["body"]["targets"][0]["columns"]]
    assert "name" not in names
    assert state().findings[0].startswith("COPY_SENSITIVE: name")


def move_table(copy: DatasetCopy) -> None:
    update_copy(copy=copy, expected_version=copy.version, table="public.airport")


def move_system(copy: DatasetCopy) -> None:
    system = copy.system
    update_system(system=system, expected_version=system.version, location="postgresql://bi@elsewhere:5432/bi")


def move_to_another_system(copy: DatasetCopy) -> None:
    other = create_system(name="O", short_name="other", kind="jdbc", location="postgresql://bi@db:5432/other")
    key = copy.key
    delete_copy(copy=copy, expected_version=copy.version)
    create_copy(dataset=airport(), to=other, key=key, sensitive="include")


@pytest.mark.parametrize("move", [move_table, move_system, move_to_another_system])
def test_sensitive_columns_are_not_sent_to_a_target_that_no_report_executed(bi, runner, script, move):
    column = airport().columns.get(name="name")
    update_target_column(column=column, expected_version=column.version, pii=True)
    copy = create_copy(dataset=airport(), to=bi, sensitive="include")
    write_applied(
        environment=current_environment(), state=dataset_state(airport()), versions={}, execution=None, through=0
    )
    perform_copy(runner)
    assert "name" in sent_columns(script)
    move(copy)
    perform_copy(runner)
    assert "name" not in sent_columns(script)
    assert state().findings[0].startswith("COPY_SENSITIVE: name")


def sent_target(script) -> dict:
    return script.seen("copy")[-1]["body"]["targets"][0]


def test_moved_copy_names_its_former_table(bi, runner, script):
    copy = create_copy(dataset=airport(), to=bi)
    perform_copy(runner)
    update_copy(copy=copy, expected_version=copy.version, table="mart.airport")
    perform_copy(runner)
    assert sent_target(script)["former_table"] == AIRPORT


def test_former_table_that_another_copy_got_meanwhile_is_not_its_own_any_more(bi, runner, script):
    copy = create_copy(dataset=airport(), to=bi)
    perform_copy(runner)
    update_copy(copy=copy, expected_version=copy.version, table="mart.airport")
    made = state()
    another = {"copy_key": uuid4(), "dataset_key": uuid4(), "dataset_name": "rawcore.rc_renamed"}
    later = {"copied_at": timezone.now(), "tried_at": timezone.now(), "status": "copied"}
    CopyState.objects.create(environment=made.environment, system="bi", table=AIRPORT.upper(), **another, **later)
    perform_copy(runner)
    assert sent_target(script)["former_table"] == ""


def test_copy_in_another_system_has_no_former_table_there(bi, lake, runner, script):
    copy = create_copy(dataset=airport(), to=bi)
    perform_copy(runner)
    DatasetCopy.objects.filter(pk=copy.pk).update(system=lake, table="mart.airport")
    script.add(fail={"mart.airport": BROKEN, AIRPORT: BROKEN})
    for _ in range(2):
        perform_copy(runner)
        sent = sent_target(script)
        assert (sent["former_table"], sent["former_shape"]) == ("", "")
    assert (state().system, state().table, state().version, state().copied_at) == ("lake", "", None, None)


def sent_columns(script) -> list[str]:
    return [column["name"] for column in script.seen("copy")[-1]["body"]["targets"][0]["columns"]]


def test_failed_copy_keeps_the_facts_of_the_former_one(bi, runner, script):
    create_copy(dataset=airport(), to=bi)
    perform_copy(runner)
    script.add(fail={AIRPORT: BROKEN})
    assert perform_copy(runner).status == "failed"
    assert (state().status, state().version, state().error["code"]) == ("failed", 5, "COPY_FOREIGN")


def test_failed_copy_is_made_again_after_its_wait(bi, runner, script):
    create_copy(dataset=airport(), to=bi)
    script.add(fail={AIRPORT: BROKEN})
    run = perform_copy(runner)
    assert request_failed_copies(wake_worker=False) == []
    Job.objects.filter(pk=run.pk).update(finished_at=timezone.now() - timedelta(minutes=11))
    (again,) = request_failed_copies(wake_worker=False)
    assert request_failed_copies(wake_worker=False) == []
    perform(again, runner)
    Job.objects.filter(pk=again.pk).update(finished_at=timezone.now() - timedelta(minutes=11))
    assert request_failed_copies(wake_worker=False) == []
    Job.objects.filter(pk=again.pk).update(finished_at=timezone.now() - timedelta(minutes=21))
    assert len(request_failed_copies(wake_worker=False)) == 1


def test_lost_copy_is_made_again(bi, runner):
    create_copy(dataset=airport(), to=bi)
    run = request_copy(dataset=AIRPORT, wake_worker=False).run
    Job.objects.filter(pk=run.pk).update(status="lost", finished_at=timezone.now() - timedelta(minutes=11))
    assert len(request_failed_copies(wake_worker=False)) == 1


def test_location_with_a_pattern_is_refused(eve, runner):
    system = create_system(name="P", short_name="p", kind="delta", location="{{ data_dir }}/copies/[ab]*")
    create_copy(dataset=airport(), to=system)
    assert perform_copy(runner).error["code"] == "BAD_LOCATION"


def test_location_outside_of_the_permitted_folders_fails_that_copy_alone(bi, runner, script):
    create_copy(dataset=airport(), to=bi)
    elsewhere = create_system(name="E", short_name="e", kind="delta", location="/somewhere/else")
    create_copy(dataset=airport(), to=elsewhere)
    perform_copy(runner)
    assert {row.system: row.status for row in CopyState.objects.all()} == {"bi": "copied", "e": "failed"}
    assert CopyState.objects.get(system="e").error["code"] == "OUTSIDE_ROOTS"


def test_dataset_without_copies_is_refused(eve):
    with pytest.raises(Refusal) as refused:
        request_copy(dataset=AIRPORT, wake_worker=False)
    assert refused.value.code == "NO_COPIES"


def test_comparison_changes_no_state(bi, runner, script):
    create_copy(dataset=airport(), to=bi)
    run = perform_copy(runner, check=True)
    assert script.seen("copy")[0]["body"]["check"]
    assert not CopyState.objects.exists()
    assert run.details["copies"][0]["to"] == "bi"


def test_command_copies_and_compares(bi, local, script):
    create_copy(dataset=airport(), to=bi)
    code, out = command("copy", "--local")
    assert (code, f"{AIRPORT} in bi: copied, 3 rows" in out) == (0, True)
    code, out = command("copy", AIRPORT, "--check", "--local", "--json")
    assert (code, json.loads(out)["copies"][0]["error"]) == (0, None)
    assert command("copy", "rawcore.nothing", "--local")[0] == 4
    assert command("copy", "--nothing")[0] == 4
    script.add(fail={AIRPORT: BROKEN})
    code, out = command("copy", "--local")
    assert (code, "COPY_FOREIGN" in out) == (1, True)


def test_command_without_copies_has_nothing_to_do(local):
    assert command("copy", "--local") == (0, "no copies\n")


def test_local_load_copies(bi, local):
    create_copy(dataset=airport(), to=bi)
    assert command("load", "--local")[0] == 0
    assert list(LoadRun.objects.order_by("pk").values_list("kind", "status")) == [
        ("load", "succeeded"),
        ("copy", "succeeded"),
    ]
