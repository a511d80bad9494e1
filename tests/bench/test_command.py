"""Command line of the benchmark: options, and errors in one line."""

import json
import subprocess
import sys

import pytest

from bench import cli
from bench.history.cases import NAMES
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
        (["--files"], "belong to --full"),
        (["--cases", "deep"], "belong to --full"),
        (["--full", "--cases", "steep"], "invalid choice: 'steep'"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_4(capsys, arguments, message):
    assert cli.main(arguments) == 4
    shown = capsys.readouterr()
    assert shown.out == ""
    assert message in shown.err
    assert shown.err.count("\n") == 1


def test_json_option_prints_an_error_as_a_document(capsys):
    assert cli.main(["--json", "--rows", "0"]) == 4
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "usage"


def test_command_without_engines_measures_all():
    options = cli.parse([])
    assert (options.only, options.rows, options.depth, options.changed) == (list(NAMES), 1_000_000, 5, 10.0)


def test_full_run_measures_named_cases_or_the_default_ones():
    taken = {
        line: cli._cases(cli.parse(line.split())) for line in ("--full", "--full --files", "--full --cases files small")
    }
    assert taken == {
        "--full": ("shallow", "deep", "small"),
        "--full --files": ("shallow", "deep", "small", "files"),
        "--full --cases files small": ("files", "small"),
    }


def test_help_names_the_engines():
    done = subprocess.run([sys.executable, "-m", "bench", "--help"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    assert "datacoolie" in done.stdout


def test_second_benchmark_is_refused_while_another_is_running(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(cli, "PLACE", tmp_path)
    with cli._alone():
        assert cli.main(["--only", "limit", "--rows", "500"]) == 1
    assert "another benchmark is running" in capsys.readouterr().err
