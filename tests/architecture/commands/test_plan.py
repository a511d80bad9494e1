"""``manage.py plan`` with two state files: formats, exit codes, errors."""

import json
from pathlib import Path

import pytest

from architecture.domain.states.state_files import dump_state
from architecture.management.commands import plan
from tests.architecture.states import column, dataset, state

BEFORE = state(dataset("d1", "", column("k1", "a"), column("k2", "b")))
SAME = BEFORE
RENAMED = state(dataset("d1", "", column("k1", "a2"), column("k2", "b")))
DROPPED = state(dataset("d1", "", column("k1", "a")))
KEPT = state(dataset("d9", "rc_d1", column("k1", "a"), column("k2", "b")))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("elevata.accounts.cli.connections.close_all", lambda: None)

    def write(after) -> tuple[str, ...]:
        for name, content in (("before", BEFORE), ("after", after)):
            text = content if isinstance(content, str) else dump_state(content)
            (tmp_path / f"{name}.json").write_text(text, encoding="utf-8")
        return "--previous-state", str(tmp_path / "before.json"), "--desired-state", str(tmp_path / "after.json")

    return write


def run(*arguments: str) -> int:
    try:
        plan.Command().run_from_argv(["manage.py", "plan", "--skip-checks", *arguments])
    except SystemExit as end:
        return end.code
    return 0


@pytest.mark.parametrize(
    ("after", "fail_on", "code"),
    [
        (DROPPED, (), 0),
        (SAME, ("changes", "warnings", "blocked", "destructive"), 0),
        (RENAMED, ("changes",), 1),
        (RENAMED, ("warnings", "blocked", "destructive"), 0),
        (KEPT, ("changes",), 0),
        (KEPT, ("warnings",), 1),
        (DROPPED, ("changes", "blocked"), 2),
        (DROPPED, ("changes", "blocked", "destructive"), 3),
    ],
)
def test_exit_codes_follow_fail_on(files, after, fail_on: tuple[str, ...], code: int) -> None:
    assert run(*files(after), *(part for level in fail_on for part in ("--fail-on", level))) == code


def test_allow_option_unblocks_dropped_columns(files) -> None:
    assert run(*files(DROPPED), "--allow", "drop_columns", "--fail-on", "blocked") == 0


@pytest.mark.parametrize("arguments", [("--format", "json"), ("--json",)])
def test_failing_plan_prints_one_json_document(files, arguments: tuple, capsys: pytest.CaptureFixture) -> None:
    assert run(*files(DROPPED), *arguments, "--fail-on", "destructive") == 3
    out, err = capsys.readouterr()
    assert (json.loads(out)["status"], err) == ("blocked", "")


def test_labels_name_the_two_sides_in_the_scope(files, capsys: pytest.CaptureFixture) -> None:
    run(*files(RENAMED), "--source-label", "dev", "--target-label", "test", "--format", "json")
    assert json.loads(capsys.readouterr().out)["scope"] == {"kind": "files", "source": "dev", "target": "test"}


def test_text_and_markdown_begin_with_the_names_of_the_two_sides(files, capsys: pytest.CaptureFixture) -> None:
    run(*files(RENAMED), "--source-label", "dev", "--target-label", "test")
    assert capsys.readouterr().out.startswith("dev → test: open, 1 allowed\n")
    run(*files(RENAMED), "--format", "markdown")
    assert capsys.readouterr().out.startswith("# Change report: previous state → desired state\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--allow", "everything"), "invalid choice"),
        (("--fail-on", "anything"), "invalid choice"),
        (("--format", "yaml"), "invalid choice"),
        (("--schema", "rawcore"), "--schema does not go with state files"),
        (("--environment", "dev"), "--environment does not go with state files"),
        (("--json", "--format", "text"), "exclude each other"),
    ],
)
def test_wrong_arguments_end_with_4(files, arguments: tuple, message: str, capsys: pytest.CaptureFixture) -> None:
    assert run(*files(RENAMED), *arguments) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


@pytest.mark.parametrize(
    ("sides", "arguments", "message"),
    [
        ((), ("--source-label", "dev"), "go with --previous-state"),
        ((0, 1), ("--environment", "dev"), "--environment does not go with state files"),
        ((2, 3), ("--all",), "--all does not go with state files"),
        ((2, 3), ("--allow", "drop_tables"), "the environment's own policy decides"),
    ],
)
def test_options_that_state_files_exclude_end_with_4(
    files, sides: tuple, arguments: tuple, message: str, capsys
) -> None:
    paths = files(RENAMED)
    assert run(*(paths[side] for side in sides), *arguments) == 4
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "after.json:1: is not JSON"),
        ('{"format": "architecture-state/v9", "datasets": []}', "after.json:1: format: 'architecture-state/v9'"),
        ('{"format": "architecture-state/v1", "datasets": [],\n "x": 1}', "after.json:2: x: is not known"),
    ],
)
def test_invalid_state_file_ends_with_4_and_one_line(files, text: str, message: str, capsys) -> None:
    assert run(*files(text)) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_missing_state_file_ends_with_4(files, capsys: pytest.CaptureFixture) -> None:
    assert run(*files(RENAMED)[:3], "/nowhere/a.json") == 4
    assert "No such file" in capsys.readouterr().err


def test_plan_of_two_state_files_runs_no_query(files) -> None:
    """Fail on any query, because the test is not marked for the database."""
    assert run(*files(RENAMED)) == 0
