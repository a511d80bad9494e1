"""``manage.py detect_file``: output and exit codes."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from elevata.accounts.cli import CommandExit


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


def test_missing_file_ends_with_4(tmp_path: Path):
    with pytest.raises(CommandExit) as end:
        call_command("detect_file", str(tmp_path / "gone.csv"), stdout=StringIO(), stderr=StringIO())
    assert end.value.returncode == 4
