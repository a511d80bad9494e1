"""Tests of import_metadata and export_metadata on the command line."""

import json
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import OperationalError

from elevata.accounts.cli import CommandExit, ProductCommand
from metadata.management.commands import export_metadata, import_metadata
from metadata.models import TargetColumn
from metadata.selectors.dataset_states import dataset_states

AIRPORTS = Path(__file__).resolve().parents[3] / "examples" / "airports"


def run(command: ProductCommand, name: str, *arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        command.run_from_argv(["manage.py", name, "--skip-checks", *arguments])
    return ended.value.code


@pytest.fixture
def connections_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the closing of connections at the end of a command, because the test still uses its connection."""
    monkeypatch.setattr("elevata.accounts.cli.connections.close_all", lambda: None)


pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("connections_stay_open")]


def test_import_prints_the_counts_of_created_updated_and_unchanged(capsys: pytest.CaptureFixture) -> None:
    call_command("import_metadata", str(AIRPORTS))
    assert capsys.readouterr().out.splitlines()[-1] == "31 created, 0 updated, 0 unchanged"


def test_import_check_prints_that_nothing_is_written(capsys: pytest.CaptureFixture) -> None:
    call_command("import_metadata", str(AIRPORTS), "--check")
    assert capsys.readouterr().out.splitlines()[-1] == "31 created, 0 updated, 0 unchanged; nothing written"


def test_import_with_json_prints_one_json_document(capsys: pytest.CaptureFixture) -> None:
    call_command("import_metadata", str(AIRPORTS), "--json")
    assert json.loads(capsys.readouterr().out)["created"] == 31


def test_invalid_input_ends_with_4(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("format: metadata/v1\ncolour: red\n")
    assert run(import_metadata.Command(), "import_metadata", str(tmp_path)) == 4


def test_invalid_input_prints_one_line_with_file_line_and_field(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "a.yaml").write_text("format: metadata/v1\ncolour: red\n")
    run(import_metadata.Command(), "import_metadata", str(tmp_path))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{tmp_path}/a.yaml:2:1: colour: is not known here")


def test_invalid_input_with_json_prints_an_error_document(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run(import_metadata.Command(), "import_metadata", str(tmp_path), "--json")
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "missing"


def test_import_prints_a_line_for_every_fault(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = tmp_path / "c.csv"
    path.write_text("schema,dataset,column,type\nbizcore,t,a,strng\nbizcore,t,b,strng\n")
    assert run(import_metadata.Command(), "import_metadata", str(path)) == 4
    first, second, last = capsys.readouterr().err.splitlines()
    assert first.startswith(f"{path}:2: bizcore.t.a: type: 'strng' is not a type")
    assert second.startswith(f"{path}:3: bizcore.t.b: type: ")
    assert last == "2 faults; nothing was written"


def test_wrong_usage_ends_with_4(capsys: pytest.CaptureFixture) -> None:
    assert run(import_metadata.Command(), "import_metadata", "--colour") == 4


def test_help_ends_with_0(capsys: pytest.CaptureFixture) -> None:
    assert run(import_metadata.Command(), "import_metadata", "--help") == 0


def test_unavailable_database_prints_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise OperationalError("connection refused\nIs the server running?")

    monkeypatch.setattr(import_metadata, "import_metadata", refuse)
    assert run(import_metadata.Command(), "import_metadata", str(AIRPORTS)) == 1
    assert capsys.readouterr().err.splitlines() == [
        "the control database does not answer: connection refused Is the server running?"
    ]


def test_unexpected_error_prints_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(import_metadata, "import_metadata", lambda *args, **kwargs: 1 / 0)
    assert run(import_metadata.Command(), "import_metadata", str(AIRPORTS)) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_call_command_raises_command_exit_for_invalid_input(tmp_path: Path) -> None:
    with pytest.raises(CommandExit, match="no YAML files"):
        call_command("import_metadata", str(tmp_path))


def test_export_writes_to_the_given_folder(tmp_path: Path) -> None:
    call_command("import_metadata", str(AIRPORTS))
    call_command(export_metadata.Command(), str(tmp_path / "out"))
    assert (tmp_path / "out/targets/rawcore/rc_net_route.yaml").is_file()


def test_export_writes_to_the_data_folder_by_default(tmp_path: Path, settings: object) -> None:
    settings.DATA_DIR = tmp_path
    call_command("import_metadata", str(AIRPORTS))
    call_command("export_metadata")
    assert (tmp_path / "metadata/systems/air.yaml").is_file()


# --- the example -----------------------------------------------------------------------------


def test_airports_example_imports_its_rawcore_datasets() -> None:
    call_command("import_metadata", str(AIRPORTS))
    names = [state.qualified_name for state in dataset_states() if state.layer == "rawcore"]
    assert names == ["rawcore.rc_air_airport", "rawcore.rc_net_route"]


def test_the_examples_airports_have_no_lid_yet() -> None:
    call_command("import_metadata", str(AIRPORTS))
    assert not TargetColumn.objects.filter(name="lid").exists()


def test_the_examples_routes_refer_to_airports_twice() -> None:
    call_command("import_metadata", str(AIRPORTS))
    (routes,) = [state for state in dataset_states() if state.name == "rc_net_route"]
    assert {reference.column_name for reference in routes.references} == {"origin_key", "destination_key"}


def test_repeated_import_of_the_airports_example_changes_nothing(capsys: pytest.CaptureFixture) -> None:
    call_command("import_metadata", str(AIRPORTS))
    capsys.readouterr()
    call_command("import_metadata", str(AIRPORTS))
    assert capsys.readouterr().out == "0 created, 0 updated, 23 unchanged\n"


def test_airports_example_route_file_has_the_agreed_columns_and_unique_keys() -> None:
    lines = (AIRPORTS / "data" / "route.csv").read_text().splitlines()
    header, rows = lines[0].split(","), [line.split(",") for line in lines[1:]]
    assert header == [
        "route_no",
        "airline",
        "origin_icao",
        "destination_icao",
        "distance_nm",
        "opened_on",
        "seasonal",
    ]
    assert len({row[0] for row in rows}) == len(rows) > 50
