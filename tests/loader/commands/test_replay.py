"""``manage.py replay``: output and exit codes; one test uses the real engine."""

import json
from io import StringIO

import pytest
from django.core.management import call_command

from elevata.accounts.cli import CommandExit
from loader.management.commands import replay

CASE = {
    "id": "one",
    "keys": ["id"],
    "columns": {"id": "integer", "v": "string"},
    "policy": {"input": "snapshot"},
    "batches": [{"at": "2024-01-01T00:00:00Z", "run_id": "r", "rows": [{"id": 1, "v": "a"}]}],
    "expected": [{"id": 1, "v": "a", "valid_to": None, "state": "new"}],
}


@pytest.fixture
def cases(tmp_path):
    def write(*documents):
        path = tmp_path / "cases.json"
        path.write_text(json.dumps(documents))
        return str(path)

    return write


@pytest.fixture
def scripted_engine(monkeypatch):
    """Replace the engine: every case passes except those named ``bad``."""

    def listen(self, text, documents):
        return {c.id: {"id": c.id, "passed": c.id != "bad", "message": "", "actual": []} for c in documents}

    monkeypatch.setattr(replay.Command, "_replay", listen)


def run(*arguments):
    out, err = StringIO(), StringIO()
    call_command("replay", *arguments, stdout=out, stderr=err)
    return out.getvalue()


def test_replay_succeeds_when_all_cases_match(cases, scripted_engine):
    assert "2 cases, all as expected" in run(cases(CASE, CASE | {"id": "two"}))


def test_only_option_runs_the_named_cases(cases, scripted_engine):
    path = cases(CASE, CASE | {"id": "bad"})
    assert [outcome["id"] for outcome in json.loads(run(path, "--only", "one", "--json"))] == ["one"]


def test_case_that_differs_exits_with_1_and_is_named(cases, scripted_engine):
    with pytest.raises(CommandExit, match="1 of 2 cases differ: bad") as end:
        run(cases(CASE, CASE | {"id": "bad"}))
    assert end.value.returncode == 1


@pytest.mark.parametrize("content", ["", "{}", "nonsense", '[{"id": "x"}]'])
def test_unreadable_case_file_exits_with_4_and_is_named(tmp_path, content):
    path = tmp_path / "cases.json"
    path.write_text(content)
    with pytest.raises(CommandExit, match="cases.json") as end:
        run(str(path))
    assert end.value.returncode == 4


def test_missing_case_file_or_unknown_case_exits_with_4(cases):
    for arguments in (["/nowhere/cases.json"], [cases(CASE), "--only", "other"]):
        with pytest.raises(CommandExit) as end:
            run(*arguments)
        assert end.value.returncode == 4


@pytest.mark.spark
def test_a_case_runs_on_the_real_engine_and_leaves_no_folder_behind(cases, settings, tmp_path):
    settings.DATA_DIR = str(tmp_path / "data")
    (outcome,) = json.loads(run(cases(CASE), "--json"))
    assert (outcome["id"], outcome["passed"], outcome["message"]) == ("one", True, "")
    assert outcome["actual"][0]["valid_from"] == "2024-01-01T00:00:00Z"
    assert list((tmp_path / "data").glob("replay-*")) == []
