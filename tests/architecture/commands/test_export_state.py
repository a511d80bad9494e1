"""``manage.py export_state``: state files of the desired and of the applied state."""

from pathlib import Path

import pytest
from django.core.management import call_command

from architecture.domain.states.flat_states import as_row, flat
from architecture.domain.states.state_files import ArchitectureState, dump_state, parse_state
from architecture.management.commands import plan
from architecture.models import AppliedDataset
from architecture.services.environments import current_environment
from elevata.accounts.cli import CommandExit
from metadata.selectors.dataset_states import dataset_states
from metadata.services.datasets.generation import generate_targets
from tests.factories import airport_source

pytestmark = pytest.mark.django_db


@pytest.fixture
def described() -> tuple:
    source = airport_source()
    generate_targets(source_dataset=source)
    return dataset_states()


def test_exported_desired_state_is_parsed_and_dumped_unchanged(described: tuple, tmp_path: Path) -> None:
    call_command("export_state", str(tmp_path / "a.json"))
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert dump_state(parse_state(text)) == text
    assert {dataset.key for dataset in parse_state(text).datasets} == {dataset.key for dataset in described}


def test_export_without_a_path_writes_to_standard_output(described: tuple, capsys: pytest.CaptureFixture) -> None:
    call_command("export_state")
    assert capsys.readouterr().out == dump_state(ArchitectureState(described))


def test_exported_applied_state_differs_from_the_desired_state(described: tuple, tmp_path: Path, monkeypatch) -> None:
    dataset = flat(described[0])
    AppliedDataset.objects.create(
        environment=current_environment(),
        dataset_key=dataset.key,
        qualified_name=dataset.qualified_name,
        state=as_row(dataset),
    )
    call_command("export_state", str(tmp_path / "a.json"), "--applied")
    call_command("export_state", str(tmp_path / "b.json"))
    monkeypatch.setattr("elevata.accounts.cli.connections.close_all", lambda: None)
    files = ["--previous-state", str(tmp_path / "a.json"), "--desired-state", str(tmp_path / "b.json")]
    with pytest.raises(SystemExit) as end:
        plan.Command().run_from_argv(["manage.py", "plan", "--skip-checks", *files, "--fail-on", "changes"])
    assert end.value.code == 1


def test_environment_option_requires_the_applied_option() -> None:
    with pytest.raises(CommandExit, match="goes with --applied"):
        call_command("export_state", "--environment", "prod")


def test_export_reports_a_missing_folder(described: tuple) -> None:
    with pytest.raises(CommandExit, match="No such file"):
        call_command("export_state", "/nowhere/a.json")
