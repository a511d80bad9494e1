"""Tests of a run of the suite: second tries of failed tests, last lines, exit codes, recorded outcomes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.suite import run
from tests.suite.durations import Outcomes, kind_of, summary
from tests.suite.run import Pass, run_part
from tests.suite.tiers import OTHER_NEEDS, is_at_a_door

EVERY_TEST = Pass("all", "not nothing")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project with its own suite, run by the same runner and recorded by the same plugin."""
    options = "addopts = -p xdist.plugin -p tests.suite.plugin\nmarkers = nothing"
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{options}\n")
    monkeypatch.setenv("PYTHONPATH", str(run.ROOT))
    # Other plugins are not needed, and loading them takes time.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    return tmp_path


def test_test_that_passes_at_its_second_try_is_listed_as_unstable(project: Path):
    (project / "test_chance.py").write_text(
        "from pathlib import Path\n"
        "def test_chance():\n"
        "    tried = Path(__file__).with_name('tried')\n"
        "    first = not tried.exists()\n"
        "    tried.touch()\n"
        "    assert not first\n"
        "def test_sound():\n"
        "    pass\n"
    )
    result = run_part([EVERY_TEST])
    assert (result.exit_code, result.failed, result.unstable) == (0, [], ["test_chance.py::test_chance"])
    assert result.lines()[-2:] == [
        "unstable: test_chance.py::test_chance failed, and passed when it was run again, alone",
        "2 passed, 0 failed",
    ]


@pytest.mark.full
def test_a_test_that_fails_twice_fails_the_part(project: Path):
    (project / "test_wrong.py").write_text("def test_wrong():\n    assert False\n")
    result = run_part([EVERY_TEST])
    assert (result.exit_code, result.failed, result.unstable) == (1, ["test_wrong.py::test_wrong"], [])
    assert result.lines()[-2:] == ["failed: test_wrong.py::test_wrong", "0 passed, 1 failed"]


@pytest.mark.full
def test_a_file_that_cannot_be_collected_fails_the_part_without_a_second_try(project: Path):
    (project / "test_broken.py").write_text("import missing_module\n")
    (project / "test_sound.py").write_text("def test_sound():\n    pass\n")
    assert run_part([EVERY_TEST]).exit_code != 0


@pytest.mark.full
def test_a_test_that_ends_its_process_is_run_once_more(project: Path):
    (project / "test_crash.py").write_text(
        "import os\n"
        "from pathlib import Path\n"
        "def test_crash():\n"
        "    tried = Path(__file__).with_name('tried')\n"
        "    if not tried.exists():\n"
        "        tried.touch()\n"
        "        os._exit(1)\n"
    )
    assert run_part([EVERY_TEST]).unstable == ["test_crash.py::test_crash"]


@pytest.mark.full
def test_part_without_tests_fails_and_an_empty_pass_does_not(project: Path):
    assert run_part([EVERY_TEST]).exit_code == 5
    (project / "test_sound.py").write_text("def test_sound():\n    pass\n")
    assert run_part([EVERY_TEST, Pass("none", "nothing")]).exit_code == 0


@pytest.mark.full
def test_files_not_started_in_time_are_listed_as_left_out(project: Path, monkeypatch: pytest.MonkeyPatch):
    for name in "abcdef":
        (project / f"test_{name}.py").write_text("def test_first():\n    pass\ndef test_second():\n    pass\n")
    monkeypatch.setenv(run.UNTIL, "1")
    result = run_part([EVERY_TEST])
    assert result.exit_code == 0
    assert result.tests + len(result.left_out) == 12
    assert result.left_out
    file = result.left_out[0].partition("::")[0]
    assert f"left out, the time was over: 2 tests of {file}" in result.lines()


def test_embedded_pass_collects_files_marked_embedded_and_those_of_pages():
    files = run.TEST[0].files()
    assert {"tests/elevata/audit/test_chain.py", "tests/metadata/views/test_datasets.py"} <= set(files)
    assert "tests/elevata/core/test_networks.py" not in files


def test_main_pass_collects_files_of_pages_only_if_they_need_more_than_a_database():
    files = run.TEST[1].files()
    assert {"tests/elevata/core/test_networks.py", "tests/elevata/ops/test_operations.py"} <= set(files)
    assert "tests/metadata/views/test_datasets.py" not in files


def test_marks_by_which_passes_choose_files_are_written_in_test_files():
    """Check the modules beside test files: a mark that is imported from one is not in the text of the file."""
    choosing = re.compile(rf"mark\.(full|embedded|embedded_only|{'|'.join(OTHER_NEEDS)})\b")
    texts = {str(path.relative_to(run.ROOT)): path.read_text() for path in (run.ROOT / "tests").rglob("*.py")}
    marks = {
        file: set(choosing.findall(text)) for file, text in texts.items() if not Path(file).name.startswith("test_")
    }
    # No pass chooses files by ``services`` alone, except for those at a door.
    assert {file: of_file for file, of_file in marks.items() if of_file} == {
        "tests/loader/dialects/engines.py": {"services"}
    }
    assert [file for file, text in texts.items() if is_at_a_door(file) and "dialects.engines" in text] == []


def test_the_passes_of_a_full_run_are_those_of_test_and_of_the_rest():
    assert run.PARTS["full"] == run.PARTS["test"] + run.PARTS["rest"]


def test_the_run_of_an_unknown_part_is_refused():
    done = subprocess.run([sys.executable, "-m", "tests.suite.run", "everything"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "invalid choice: 'everything'" in done.stderr


def test_the_summary_has_the_time_by_kind_and_the_ten_slowest_files():
    seconds = {f"tests/test_{number}.py::test": float(number) for number in range(12)}
    kinds = dict.fromkeys(seconds, "pure") | {"tests/test_11.py::test": "Spark"}
    lines = summary(seconds, kinds)
    assert [line.split() for line in lines[:2]] == [
        ["55.0", "s", "pure,", "11", "tests"],
        ["11.0", "s", "Spark,", "1", "tests"],
    ]
    assert lines[2].split() == ["11.0", "s", "tests/test_11.py"]
    assert len(lines) == 12


@pytest.mark.parametrize(
    ("marks", "kind"),
    [
        (["servers", "spark"], "servers"),
        (["spark", "database"], "Spark"),
        (["browser", "database"], "browser"),
        (["database"], "database"),
        ([], "pure"),
    ],
)
def test_kind_of_a_test_is_its_largest_requirement(marks: list[str], kind: str):
    assert kind_of(marks) == kind


def test_missing_outcomes_file_is_read_as_no_outcomes(tmp_path: Path):
    assert Outcomes.read(tmp_path / "none.json") == Outcomes()
