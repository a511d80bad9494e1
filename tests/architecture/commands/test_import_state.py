"""State files of an installation: comparison in a plan, and import as applied state."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from architecture.domain.refusals import Refused
from architecture.domain.states.state_files import parse_state
from architecture.models import AppliedDataset, ChangeReport
from architecture.selectors.dataset_states import applied_states
from architecture.services import refreshes
from architecture.services.drift import drift_of
from architecture.services.state_import import Imported, import_state
from elevata.accounts.actors import acting_as
from elevata.accounts.cli import CommandExit
from elevata.accounts.services.tokens import create_token
from elevata.audit.models import ChangeLogEntry
from metadata.services.references import create_reference
from tests.architecture.services.test_reports import rename
from tests.architecture.world import World, agree_on_policy, customers

pytestmark = pytest.mark.django_db


def export(path: Path, *, applied: bool = True, **changes: Any) -> Path:
    """Write a state file of this installation with changes to its one dataset, and return its path."""
    call_command("export_state", str(path), *(["--applied"] if applied else []), stdout=StringIO())
    document = json.loads(path.read_text(encoding="utf-8"))
    document["datasets"][0] |= changes
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@pytest.fixture
def file(built: World, tmp_path: Path, monkeypatch) -> Path:
    """Return the path of a state file with the applied state; refreshes observe the warehouse."""
    monkeypatch.setattr(refreshes, "observe", lambda **_: built.warehouse.show())
    return export(tmp_path / "state.json")


def run(*argv: str) -> tuple[int, dict]:
    out = StringIO()
    try:
        call_command(*argv, "--json", stdout=out, stderr=StringIO())
    except CommandExit as end:
        return end.returncode, {"code": end.code, "message": str(end)}
    return 0, json.loads(out.getvalue())


def operations(report: dict) -> list[tuple]:
    return [(operation["op"], operation.get("from"), operation.get("to")) for operation in report["operations"]]


# --- comparison of one file ----------------------------------------------------------------------------


def test_plan_compares_a_previous_state_file_with_the_metadata(built, file):
    assert run("plan", "--previous-state", str(file))[1]["status"] == "no_changes"
    rename(built, "full_name", "display_name")
    code, report = run("plan", "--previous-state", str(file), "--source-label", "prod")
    assert (code, set(operations(report))) == (0, {("rename_column", "full_name", "display_name")})
    assert report["scope"] == {"kind": "files", "source": "prod", "target": "metadata"}


def test_plan_compares_a_desired_state_file_with_the_warehouse(built, file):
    assert run("plan", "--desired-state", str(file))[1]["status"] == "no_changes"
    for table in built.warehouse.shapes:
        built.warehouse.rename_behind_your_back(table, "balance", "by_hand")
    code, report = run("plan", "--desired-state", str(file), "--environment", "dev")
    assert (code, set(operations(report))) == (0, {("rename_column", "by_hand", "balance")})
    assert report["scope"]["source"] == "dev"


def test_plan_of_a_desired_state_file_applies_the_environments_policy(built, file, tmp_path):
    empty = tmp_path / "empty.json"
    empty.write_text('{"format": "architecture-state/v1", "datasets": []}', encoding="utf-8")
    assert run("plan", "--desired-state", str(empty))[1]["status"] == "blocked"
    policies = {"severities": {"DROP_TABLE": "needs_approval"}}
    agree_on_policy(built.environment, policies)
    assert run("plan", "--desired-state", str(empty))[1]["status"] == "open"


def test_plan_with_a_state_file_stores_no_report(built, file):
    known = ChangeReport.objects.count()
    run("plan", "--previous-state", str(file))
    run("plan", "--desired-state", str(file))
    assert ChangeReport.objects.count() == known


def test_plan_of_a_desired_state_file_refuses_an_environment_never_observed(built, file, monkeypatch):
    built.environment.observations.all().delete()
    monkeypatch.setattr(refreshes, "observe", lambda **_: None)
    assert run("plan", "--desired-state", str(file))[1]["code"] == "NOT_OBSERVED"


# --- import --------------------------------------------------------------------------------------


def import_file(world: World, file: Path, **changes: Any) -> Imported:
    arguments = {"user": world.operator, "reason": "taken over from north"} | changes
    return import_state(environment=world.environment, state=parse_state(file.read_text()), **arguments)


def rows() -> list[dict]:
    return list(AppliedDataset.objects.values("dataset_key", "qualified_name", "state").order_by("dataset_key"))


@pytest.fixture
def without_applied_state(built: World, file: Path) -> World:
    """Return a world with tables and metadata whose applied state is only in the state file."""
    AppliedDataset.objects.all().delete()
    return built


def test_imported_state_restores_the_applied_state(built, file):
    (before,) = applied_states(environment=built.environment)
    AppliedDataset.objects.all().delete()
    assert import_file(built, file) == Imported(("rawcore.rc_crm_customer",), ())
    (after,) = applied_states(environment=built.environment)
    assert (after.layer, after.history_key, after.hash_version) == (
        before.layer,
        before.history_key,
        before.hash_version,
    )
    assert export(file.with_name("again.json")).read_text() == file.read_text()
    assert built.report().status == "no_changes"
    assert [dataset.status for dataset in drift_of(built.environment).datasets] == ["in_sync"]


def test_imported_state_that_differs_from_the_warehouse_is_drift(without_applied_state, file):
    for table in without_applied_state.warehouse.shapes:
        without_applied_state.warehouse.rename_behind_your_back(table, "balance", "other")
    without_applied_state.warehouse.show()
    import_file(without_applied_state, file)
    assert [dataset.status for dataset in drift_of(without_applied_state.environment).datasets] == ["drifted"]


def test_import_skips_a_dataset_that_is_applied_already(built, file):
    assert import_file(built, file) == Imported((), ("rawcore.rc_crm_customer",))


def test_import_refuses_the_whole_file_if_an_applied_dataset_differs(built, file):
    customers(built.author, "rc_crm_other")
    other = export(file.with_name("more.json"), applied=False)
    document = json.loads(other.read_text())
    next(dataset for dataset in document["datasets"] if dataset["name"] == "rc_crm_customer")["filter"] = "1 = 1"
    other.write_text(json.dumps(document))
    before = rows()
    with pytest.raises(Refused) as refused:
        import_file(built, other)
    assert (refused.value.code, rows()) == ("ALREADY_APPLIED", before)


def test_import_refuses_a_name_applied_under_another_key(built, file):
    key = "00000000-0000-0000-0000-000000000001"
    with pytest.raises(Refused) as refused:
        import_file(built, export(file, key=key))
    assert refused.value.code == "ALREADY_APPLIED"
    assert "under the key" in refused.value.message


@pytest.mark.parametrize(
    ("changes", "code"), [({"key": "d1"}, "BAD_KEY"), ({"schema": "elsewhere", "key": "0" * 32}, "UNKNOWN_LAYER")]
)
def test_import_refuses_an_invalid_key_or_an_unknown_layer(without_applied_state, file, changes, code):
    document = json.loads(file.read_text())
    document["datasets"][0] |= changes
    file.write_text(json.dumps(document))
    with pytest.raises(Refused) as refused:
        import_file(without_applied_state, file)
    assert (refused.value.code, rows()) == (code, [])


@pytest.mark.parametrize(("changes", "code"), [({"user": None}, "NO_PERSON"), ({"reason": " "}, "NO_REASON")])
def test_import_requires_a_user_and_a_reason(without_applied_state, file, changes, code):
    with pytest.raises(Refused) as refused:
        import_file(without_applied_state, file, **changes)
    assert refused.value.code == code


def test_import_requires_the_execute_permission(without_applied_state, file):
    with pytest.raises(Refused) as refused:
        import_file(without_applied_state, file, user=without_applied_state.author)
    assert refused.value.code == "NOT_PERMITTED"


def test_import_is_recorded_in_the_change_log(without_applied_state, file):
    import_file(without_applied_state, file)
    entry = ChangeLogEntry.objects.get(subject_kind="baseline")
    assert (entry.action, entry.actor, entry.reason) == ("imported", "olga", "taken over from north")


def test_user_who_edited_what_differs_from_the_import_is_an_author_of_the_report(without_applied_state, file):
    rename(without_applied_state, "full_name", "display_name")
    import_file(without_applied_state, file)
    assert "ada" in without_applied_state.report().authors


def test_import_check_lists_datasets_and_writes_nothing(without_applied_state, file):
    assert import_file(without_applied_state, file, check=True, reason="").imported == ("rawcore.rc_crm_customer",)
    assert rows() == []


def test_import_command_acts_as_the_user_of_the_token(without_applied_state, file, monkeypatch):
    assert run("import_state", str(file), "--reason", "taken over")[1]["code"] == "NO_PERSON"
    monkeypatch.setenv("ELEVATA_TOKEN", create_token(user=without_applied_state.operator)[1])
    code, answer = run("import_state", str(file), "--check")
    assert (code, answer["check"], rows()) == (0, True, [])
    code, answer = run("import_state", str(file), "--reason", "taken over")
    assert (code, answer["imported"], answer["environment"]) == (0, ["rawcore.rc_crm_customer"], "dev")


def test_import_of_an_invalid_or_missing_file_ends_with_4(without_applied_state, file, monkeypatch):
    monkeypatch.setenv("ELEVATA_TOKEN", create_token(user=without_applied_state.operator)[1])
    assert run("import_state", str(export(file, applied=False, filters="x")))[0] == 4
    assert run("import_state", "/nowhere/state.json")[0] == 4


def test_import_restores_the_foreign_key_role_of_a_column(world, tmp_path):
    parent = customers(world.author)
    child = customers(world.author, "rc_crm_order")
    with acting_as(world.author):
        pair = (child.columns.get(name="customer_id"), parent.columns.get(name="customer_id"))
        create_reference(child=child, parent=parent, role_name="buyer", pairs=[pair])
    world.executed()
    before = {
        dataset.key: {c.role for c in dataset.columns} for dataset in applied_states(environment=world.environment)
    }
    file = export(tmp_path / "state.json")
    AppliedDataset.objects.all().delete()
    import_file(world, file)
    after = {
        dataset.key: {c.role for c in dataset.columns} for dataset in applied_states(environment=world.environment)
    }
    assert after == before
    assert "foreign_key" in after[str(child.key)]
    assert world.report().status == "no_changes"
