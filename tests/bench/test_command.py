"""Command line of the benchmark: measures, options, and errors in one line."""

import json
import subprocess
import sys
from argparse import Namespace

import pytest

from bench import runner
from bench.history.cases import NAMES
from bench.runner import Bound, Measure, Run
from elevata.bootstrap.places import ROOT


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rows", "0"], "argument --rows: must be at least 1, not 0"),
        (["--rows", "many"], "argument --rows: invalid number value: 'many'"),
        (["--depth", "-1"], "argument --depth: must be at least 0, not -1"),
        (["--changed", "90"], "argument --changed: must be more than 0 and at most 80, not 90"),
        (["--only", "ours", "theirs"], "there is no engine 'theirs'"),
        (["--full", "--only", "ours"], "leave --only out"),
        (["--cases", "deep"], "belongs to --full"),
        (["--output", str(ROOT / "bench" / ".." / "bench" / "results.json")], "has the results of --full only"),
        (["--full", "--cases", "steep"], "invalid choice: 'steep'"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
        (["speed"], "there is no measure 'speed': choose from history, flights"),
        (["models", "--rows", "3"], "unrecognized arguments: --rows 3"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_4(capsys, arguments, message):
    assert runner.main(arguments) == 4
    output = capsys.readouterr()
    assert output.out == ""
    assert message in output.err
    assert output.err.count("\n") == 1


def test_command_without_a_measure_measures_the_history_step_of_all_engines():
    measure, options = runner.parse([])
    assert measure.name == "history"
    assert (options.only, options.rows, options.depth, options.changed) == (list(NAMES), 1_000_000, 5, 10.0)


@pytest.mark.parametrize("name", sorted(runner.MODULES))
def test_every_measure_has_its_sizes_as_options(name):
    measure, options = runner.parse([name])
    assert measure.name == name
    assert measure.description
    assert {size: getattr(options, size) for size in measure.sizes} == dict(measure.sizes)


def test_history_step_without_full_writes_only_a_chosen_file(tmp_path):
    assert runner.parse([])[1].output is None
    assert runner.parse(["--output", str(tmp_path / "r.json")])[1].output == tmp_path / "r.json"
    assert runner.parse(["--full"])[1].output == ROOT / "bench" / "results.json"


def test_error_of_the_program_is_written_to_the_log(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "PLACE", tmp_path)
    monkeypatch.setattr(runner, "LOG", tmp_path / "logs" / "bench.log")
    broken = Measure(lambda run: {}["rows"], name="broken")
    monkeypatch.setattr(runner, "parse", lambda _: (broken, Namespace(output=None)))
    assert runner.main([]) == 1
    assert "KeyError: 'rows' (an error of the program: see " in capsys.readouterr().err
    assert "Traceback" in (tmp_path / "logs" / "bench.log").read_text()


def test_help_names_the_engines():
    done = subprocess.run([sys.executable, "-m", "bench", "--help"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    assert "datacoolie" in done.stdout


def test_second_benchmark_is_refused_while_another_is_running(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "PLACE", tmp_path)
    with runner._alone():
        assert runner.main(["models", "--models", "1"]) == 1
    assert "another benchmark is running" in capsys.readouterr().err


def test_result_has_counted_rounds_and_bounds_without_the_first_round(capsys, tmp_path, monkeypatch):
    def take(run: Run) -> dict:
        for number in run.rounds():
            run.record("ours", (number + 1.0, 1.0))
            run.record("peer", (2.0, 1.0))
        return {"rows_read": 7}

    bounds = (Bound("ours / peer", "ours", "peer", 1.2),)
    measure = Measure(take, {"rows": 3}, rounds=2, bounds=bounds)
    monkeypatch.setattr(runner, "PLACE", tmp_path / "place")
    monkeypatch.setattr(runner, "parse", lambda _: (measure, Namespace(rows=3, rounds=2, output=tmp_path / "r.json")))
    assert runner.main([]) == 0
    document = json.loads((tmp_path / "r.json").read_text())
    assert (document["rows"], document["rows_read"]) == (3, 7)
    assert document["seconds"] == {"ours": [2.0, 3.0], "peer": [2.0, 2.0]}
    assert document["bounds"] == {"ours / peer": {"value": 1.25, "by_processor": 1.0, "wanted": "<= 1.2", "met": False}}
    assert "ours / peer  <= 1.2     1.250   1.000  MISSED" in capsys.readouterr().out
