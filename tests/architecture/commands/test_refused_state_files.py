"""State files that ``manage.py plan`` refuses with exit code 4 and one line: file, position and reason."""

import enum
import json
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from architecture.domain.states.state_files import StateProblem, parse_state
from architecture.management.commands import plan

ROOT = Path(__file__).resolve().parents[3]
COLUMN = {
    "key": "c1",
    "name": "v",
    "former_names": [],
    "type": "string",
    "nullable": True,
    "role": "attribute",
    "active": True,
    "expression": None,
    "inputs": [],
}
DATASET = {
    "key": "d1",
    "schema": "rawcore",
    "name": "rc_a",
    "former_names": [],
    "active": True,
    "materialization": "table",
    "historize": False,
    "columns": [COLUMN],
}
FILE = {"format": "architecture-state/v1", "datasets": [DATASET]}
DS, COL = ["datasets", 0], ["datasets", 0, "columns", 0]
MISSING = enum.Enum("Missing", ["MISSING"]).MISSING


def with_value(path: list, value: Any) -> str:
    document = deepcopy(FILE)
    owner = document
    for part in path[:-1]:
        owner = owner[part]
    if value is MISSING:
        del owner[path[-1]]
    else:
        owner[path[-1]] = value
    return json.dumps(document)


LONE = "\ud800"
REFUSED = [
    *(([name], MISSING) for name in FILE),
    *(([*DS, name], MISSING) for name in DATASET),
    *(([*COL, name], MISSING) for name in COLUMN),
    *(([*DS, name], None) for name in DATASET),
    *(([*COL, name], None) for name in COLUMN if name != "expression"),
    (["format"], "architecture-state/v2"),
    ([*DS, "owner"], "ann"),
    ([*COL, "comment"], "x"),
    ([*COL, "length"], 5),
    ([*COL, "role"], "Business_Key"),
    ([*COL, "type"], "array<int>"),
    ([*COL, "type"], "decimal(39,2)"),
    ([*COL, "type"], "decimal"),
    ([*COL, "type"], "string(0)"),
    ([*COL, "nullable"], "yes"),
    ([*COL, "nullable"], 1),
    ([*COL, "expression"], ["x"]),
    ([*DS, "materialization"], "incremental"),
    ([*DS, "name"], "rc a"),
    ([*DS, "name"], "größe"),
    ([*DS, "name"], "rc_a_hist"),
    ([*DS, "inputs"], "d2"),
    ([*DS, "history_policy"], ["x"]),
    (["datasets"], [DATASET, DATASET]),
    (["datasets"], [DATASET, DATASET | {"key": "d2", "name": "RC_A"}]),
    ([*DS, "columns"], [COLUMN, COLUMN | {"name": "w"}]),
    ([*DS, "columns"], [COLUMN, COLUMN | {"key": "c2", "name": "V"}]),
    # A lone surrogate, which JSON can escape but UTF-8 cannot encode.
    ([*COL, "name"], LONE),
    ([*COL, "expression"], LONE),
    ([*DS, "filter"], LONE),
    ([*DS, "load_policy"], {"a": LONE}),
    ([*DS, "history_policy"], {LONE: 1}),
]


@pytest.mark.parametrize(("path", "value"), REFUSED, ids=str)
def test_invalid_state_file_is_refused_with_file_and_line(path: list, value: Any) -> None:
    with pytest.raises(StateProblem) as problem:
        parse_state(with_value(path, value), "b.json")
    assert problem.value.one_line().startswith("b.json:1: ")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "format: x",
        "{'format': 1}",
        f"{json.dumps(FILE)} x",
        json.dumps(FILE).replace("true", "9" * 5000, 1),
        with_value([*DS, "load_policy"], {"a": 7}).replace("7", "9" * 5000),
    ],
    ids=["empty", "yaml", "single quotes", "something behind", "a number of 5000 digits", "such a number in a policy"],
)
def test_state_file_that_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(StateProblem):
        parse_state(text, "b.json")


def files(folder: Path, text: str) -> tuple[str, ...]:
    for name, written in (("a", json.dumps(FILE)), ("b", text)):
        (folder / f"{name}.json").write_text(written, encoding="utf-8")
    return "--previous-state", str(folder / "a.json"), "--desired-state", str(folder / "b.json")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(with_value([*COL, "expression"], LONE), id="half a character"),
        pytest.param(with_value([*DS, "load_policy"], {"a": 7}).replace("7", "9" * 5000), id="a number of 5000 digits"),
    ],
)
def test_plan_of_an_unwritable_state_file_ends_with_4_and_one_line(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr("elevata.accounts.cli.connections.close_all", lambda: None)
    with pytest.raises(SystemExit) as end:
        plan.Command().run_from_argv(["manage.py", "plan", "--skip-checks", *files(tmp_path, text)])
    (line,) = capfd.readouterr().err.splitlines()
    assert (end.value.code, "b.json" in line) == (4, True)


def test_error_with_an_unprintable_character_is_one_line_and_one_json_document(tmp_path: Path) -> None:
    """Check the error in a process of its own, because only there standard output has a strict encoding."""
    command = [sys.executable, "manage.py", "plan", *files(tmp_path, with_value([*DS, LONE], 1)), "--format", "json"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (4, 1)
    assert json.loads(ended.stdout)["error"]["code"] == "bad_state_file"
