"""``manage.py detect_file``: output and exit codes."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from elevata.accounts.cli import CommandExit
from loader.management.commands.detect_file import Command


def test_answer_names_options_columns_and_questions(tmp_path: Path):
    path = tmp_path / "report.csv"
    path.write_text("Export;\nNr;Seit\n1;01.02.2026\n2;03.04.2026\n3;05.06.2026\n")
    out = StringIO()
    call_command("detect_file", str(path), json=True, stdout=out, stderr=StringIO())
    (document,) = json.loads(out.getvalue())
    (question,) = document.pop("questions")
    assert document == {
        "file": str(path),
        "format": "csv",
        "options": {"delimiter": ";", "skip_lines": 1, "date_format": "%d.%m.%Y"},
        "columns": [
            {"name": "Nr", "type": "integer", "target_name": "nr"},
            {"name": "Seit", "type": "date", "target_name": "seit"},
        ],
        "notes": [],
    }
    assert (question["option"], question["candidates"]) == ("date_format", ["%d.%m.%Y", "%m.%d.%Y"])
    assert question["reason"]


def test_unreadable_file_has_an_error_and_ends_with_1(tmp_path: Path):
    (tmp_path / "a.csv").write_text("id,v\n1,2\n")
    (tmp_path / "b.csv").write_text("")
    out = StringIO()
    with pytest.raises(CommandExit) as end:
        call_command(
            "detect_file", str(tmp_path / "a.csv"), str(tmp_path / "b.csv"), json=True, stdout=out, stderr=StringIO()
        )
    first, second = json.loads(out.getvalue())
    assert (end.value.returncode, first["format"]) == (1, "csv")
    assert (set(second), second["error"]["code"]) == ({"file", "error"}, "EMPTY_FILE")


def run_command(*arguments: str) -> tuple[int, str, str]:
    """Run the command as from a shell; return exit code, stdout and stderr."""
    out, errors = StringIO(), StringIO()
    command = Command(stdout=out, stderr=errors)
    try:
        command.run_from_argv(["manage.py", "detect_file", *arguments])
    except SystemExit as end:
        return end.code, out.getvalue(), errors.getvalue()
    return 0, out.getvalue(), errors.getvalue()


@pytest.mark.parametrize("name", ["gone.csv", "folder", "x" * 300, "gone/x.csv"])
def test_name_that_is_not_that_of_a_file_ends_with_4_and_one_line(tmp_path: Path, name: str):
    (tmp_path / "folder").mkdir()
    code, out, errors = run_command(str(tmp_path / name))
    assert (code, out, errors.count("\n")) == (4, "", 1)


def test_error_of_a_missing_file_is_a_json_document_on_stdout(tmp_path: Path):
    code, out, errors = run_command(str(tmp_path / "gone.csv"), "--json")
    (document,) = json.loads(out)
    assert (code, set(document), document["error"]["code"]) == (4, {"file", "error"}, "MISSING_FILE")
    assert errors.count("gone.csv") == 1


@pytest.mark.parametrize("bad", ["gone.csv", "empty.csv", "broken.xlsx"])
def test_file_that_cannot_be_read_does_not_stop_the_others_and_is_named(tmp_path: Path, bad: str):
    (tmp_path / "a.csv").write_text("id,v\n1,2\n")
    (tmp_path / "b.csv").write_text("id,v\n1,2\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "broken.xlsx").write_bytes(b"no workbook")
    files = [str(tmp_path / name) for name in ("a.csv", bad, "b.csv")]
    code, out, errors = run_command(*files)
    assert code == (4 if bad == "gone.csv" else 1)
    assert [line.partition(":")[0] for line in out.splitlines() if line.startswith("/")] == [files[0], files[2]]
    first, last = errors.splitlines()
    assert files[1] in first
    assert last == "1 of 3 files could not be read"


def test_questions_are_printed_with_examples_and_options(tmp_path: Path):
    path = tmp_path / "a.csv"
    path.write_text("id;seit\n1;01.02.2026\n2;03.04.2026\n")
    _, out, _ = run_command(str(path))
    assert "How are dates written?" in out
    assert 'DD.MM.YYYY (likeliest): 01.02.2026 is 1 February 2026  [date_format: "%d.%m.%Y"]' in out


def test_dates_that_are_not_read_are_a_note_and_no_question(tmp_path: Path):
    path = tmp_path / "a.csv"
    path.write_text("id;dia\n1;12 enero 2026\n2;3 marzo 2026\n")
    code, out, _ = run_command(str(path))
    assert (code, "dia may have dates or numbers in a format that is not read" in out) == (0, True)
    assert "likeliest" not in out
