"""Names published after loads and executions, and by the command, with a scripted runner."""

import json

import pytest
from django.core.management import call_command

from architecture.selectors.dataset_states import described_states
from architecture.services.environments import current_environment
from architecture.services.observations import store_and_report_drift
from architecture.services.previews import make_preview
from architecture.services.report_basis import table_keys
from architecture.services.reports import build_report
from elevata.accounts.cli import CommandExit
from loader.management.commands import publish as command
from loader.models import LoadRun, RunEvent
from metadata.services.datasets.targets import update_schema
from metadata.services.lifecycle import rename_dataset
from tests.loader.airports import target
from tests.loader.services.loads.test_load_work import perform, queued
from tests.loader.services.test_executions import olga, requested_execution, work

pytestmark = pytest.mark.django_db(transaction=True)

CORE, STAGE = "rawcore.rc_air_airport", "stage.stg_air_airport"
DOWN = {"code": "CATALOG_DOWN", "message": "the catalog thrift://m:9083 does not answer", "hint": "start it"}
TAKEN = {"name": CORE, "kind": "table", "problem": "foreign", "message": "the catalog has a table of that name"}


@pytest.fixture(autouse=True)
def metastore(settings):
    settings.CATALOG = "thrift://m:9083"


def publish_requests(script) -> list[dict]:
    return [request["body"] for request in script.seen("publish")]


def names(manifest: dict) -> set[str]:
    return {name["name"] for name in manifest["names"]}


def warnings(run: LoadRun) -> list[str]:
    return list(RunEvent.objects.filter(run=run, level="warning").values_list("message", flat=True))


def preview_rename():
    """Return the preview of a report that renames a table."""
    core = target(CORE)
    rename_dataset(dataset=core, name="rc_air_field", expected_version=core.version)
    return make_preview(report=build_report(environment=current_environment()), user=olga())


def preview_creation():
    """Return the preview of a report that creates every table and view of an empty warehouse."""
    environment = current_environment()
    keys = table_keys(described_states(environment=environment))
    store_and_report_drift(environment=environment, keys=keys, tables={})
    return make_preview(report=build_report(environment=environment), user=olga())


def test_the_first_load_publishes_all_names(airports, runner, script):
    assert perform(queued(), runner).status == "succeeded"
    (manifest,) = publish_requests(script)
    assert names(manifest) >= {"raw.raw_air_airport", STAGE, CORE, f"{CORE}_hist"}
    assert (manifest["whole"], manifest["check"], manifest["address"]) == (True, False, "thrift://m:9083")
    assert {"raw", "stage", "rawcore"} <= set(manifest["schemas"])


def test_a_load_that_changes_no_table_publishes_its_own_names(airports, runner, script):
    perform(queued(), runner)
    perform(queued(), runner)
    assert publish_requests(script)[-1]["whole"] is False
    assert names(publish_requests(script)[-1]) >= {CORE, STAGE}


def test_load_publishes_all_names_where_a_former_publication_may_be_incomplete(airports, runner, script):
    perform(queued(), runner)
    script.add(incomplete=True)
    run = perform(queued(), runner)
    assert [manifest["whole"] for manifest in publish_requests(script)] == [True, False, True]
    assert warnings(run) == []


def test_catalog_prefix_applies_to_shared_catalogs_only(airports, runner, script, settings):
    settings.CATALOG_PREFIX = "test_"
    perform(queued(), runner)
    (manifest,) = publish_requests(script)
    assert {CORE.replace("rawcore", "test_rawcore"), f"test_{STAGE}"} <= names(manifest)
    assert {"test_raw", "test_stage", "test_rawcore"} <= set(manifest["schemas"])
    settings.CATALOG = "embedded"
    perform(queued(), runner)
    assert {CORE, STAGE} <= names(publish_requests(script)[-1])


def test_load_creates_its_views_and_records_their_statements(airports, runner, script):
    run = perform(queued(), runner)
    row = run.execution.operations.get(qualified_name=STAGE)
    assert (row.status, row.statement.splitlines()[0]) == (
        "succeeded",
        "CREATE OR REPLACE VIEW `stage`.`stg_air_airport`",
    )


def test_load_succeeds_with_a_warning_while_the_catalog_is_down(airports, runner, script):
    script.add(no_catalog=DOWN)
    run = perform(queued(), runner)
    assert run.status == "succeeded"
    assert warnings(run) == ["names were not published: the catalog thrift://m:9083 does not answer; start it"]


def test_load_records_no_statement_for_a_view_that_was_not_published(airports, runner, script):
    script.add(no_catalog=DOWN)
    run = perform(queued(), runner)
    assert run.execution.operations.get(qualified_name=STAGE).statement == ""


def test_load_succeeds_with_a_warning_when_a_name_is_taken(airports, runner, script):
    script.add(findings=[TAKEN])
    run = perform(queued(), runner)
    assert run.status == "succeeded"
    assert warnings(run) == [f"not published: {CORE}: foreign, the catalog has a table of that name"]


def test_an_execution_publishes_the_new_names(airports, runner, script):
    perform(queued(), runner)
    assert work(requested_execution(preview_rename()), runner).status == "succeeded"
    manifest = publish_requests(script)[-1]
    assert "rawcore.rc_air_field" in names(manifest)
    assert CORE not in names(manifest)
    assert manifest["whole"] is True


def test_names_in_the_former_schema_are_compared_after_its_rename(airports, runner, script):
    perform(queued(), runner)
    schema = target(CORE).schema
    update_schema(schema=schema, expected_version=schema.version, name="core")
    preview = make_preview(report=build_report(environment=current_environment()), user=olga())
    done = work(requested_execution(preview), runner)
    assert done.status == "succeeded"
    manifest = publish_requests(script)[-1]
    assert "core.rc_air_airport" in names(manifest)
    assert {"core", "rawcore"} <= set(manifest["schemas"])


def test_execution_of_table_changes_succeeds_with_a_warning_while_the_catalog_is_down(airports, runner, script):
    perform(queued(), runner)
    preview = preview_rename()
    script.add(no_catalog=DOWN)
    done = work(requested_execution(preview), runner)
    assert done.status == "succeeded"
    assert done.events.filter(level="warning", message__contains="thrift://m:9083 does not answer").exists()


@pytest.mark.parametrize("catalog", ["embedded", "thrift://m:9083", "spark:unity"])
def test_report_creates_its_view_in_the_catalog_and_records_the_statement(airports, runner, script, settings, catalog):
    settings.CATALOG = catalog
    preview = preview_creation()
    done = work(requested_execution(preview), runner)
    assert done.status == "succeeded"
    row = done.operations.get(qualified_name=STAGE)
    assert row.statement.startswith("CREATE OR REPLACE VIEW `stage`.`stg_air_airport`")
    assert "CREATE OR REPLACE VIEW `stage`.`stg_air_airport`" in json.dumps(done.record.document)


def test_report_succeeds_with_a_warning_where_the_catalog_does_not_support_views(airports, runner, script):
    preview = preview_creation()
    script.add(findings=[{**TAKEN, "name": STAGE, "kind": "view", "problem": "unsupported"}])
    done = work(requested_execution(preview), runner)
    assert done.status == "succeeded"
    assert done.operations.get(qualified_name=STAGE).statement == ""
    assert done.events.filter(level="warning", message__contains=f"not published: {STAGE}: unsupported").exists()


@pytest.mark.parametrize("problem", [{"no_catalog": DOWN}, {"findings": [{**TAKEN, "name": STAGE, "kind": "view"}]}])
def test_report_fails_and_can_be_resumed_when_its_view_is_not_published(airports, runner, script, problem):
    preview = preview_creation()
    script.add(**problem)
    done = work(requested_execution(preview), runner)
    assert done.status == "failed"
    row = done.operations.get(qualified_name=STAGE)
    assert (row.status, bool(row.error), row.statement) == ("failed", True, "")
    script.tell(observed=script.told()["observed"])
    again = work(requested_execution(preview), runner)
    assert (again.status, again.attempt) == ("succeeded", 2)


def run(runner, monkeypatch, *options: str) -> None:
    monkeypatch.setattr(command, "Runner", lambda holder: runner)
    call_command("publish", "--local", *options)


def test_command_exits_with_0_if_the_catalog_has_every_name(airports, runner, script, monkeypatch, capsys):
    run(runner, monkeypatch, "--json")
    assert json.loads(capsys.readouterr().out)["findings"] == []


def test_check_lists_differences_without_publishing_and_exits_with_1(airports, runner, script, monkeypatch, capsys):
    script.add(findings=[TAKEN])
    with pytest.raises(CommandExit) as ended:
        run(runner, monkeypatch, "--check", "--json")
    assert (ended.value.returncode, str(ended.value)) == (1, "1 names differ from the catalog")
    assert publish_requests(script)[-1]["check"] is True
    assert '"foreign"' in capsys.readouterr().out


def test_the_command_names_a_catalog_that_is_down(airports, runner, script, monkeypatch):
    script.add(no_catalog=DOWN)
    with pytest.raises(CommandExit, match="thrift://m:9083 does not answer; start it") as ended:
        run(runner, monkeypatch)
    assert ended.value.returncode == 1


def test_publish_refuses_the_embedded_catalog(db, settings):
    settings.CATALOG = "embedded"
    with pytest.raises(CommandExit, match="lives in the runner alone") as ended:
        call_command("publish")
    assert ended.value.returncode == 4
