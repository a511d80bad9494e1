"""Detection of how files are read, by the API."""

from pathlib import Path

import pytest
from django.test import Client

from metadata.models import System
from tests.elevata.api.requests import send

pytestmark = pytest.mark.django_db

REPORT = "Export of 2026-11-28;\nNr;Betrag\n1;1,50\n2;2,75\n3;3,10\n"


def test_answer_has_the_fields_of_the_command(editor: Client, shop: System, landing: Path):
    (landing / "report.csv").write_text(REPORT)
    answer = send(editor, "post", "detect-file/", {"system": shop.short_name, "files": ["report.csv", "gone.csv"]})
    assert answer.status_code == 200, answer.content
    first, second = answer.json()
    assert first == {
        "file": "report.csv",
        "format": "csv",
        "options": {"delimiter": ";", "skip_lines": 1, "decimal_separator": ","},
        "columns": [
            {"name": "Nr", "type": "integer", "target_name": "nr"},
            {"name": "Betrag", "type": "decimal(18,2)", "target_name": "betrag"},
        ],
        "questions": [],
        "notes": [],
    }
    assert (second["file"], second["error"]["code"]) == ("gone.csv", "MISSING_FILE")


def test_answer_has_the_notes_about_characters(editor: Client, shop: System, landing: Path):
    (landing / "names.csv").write_text("id,name\n1,5 \x80\n\ufeff2,Ada\n")
    answer = send(editor, "post", "detect-file/", {"system": shop.short_name, "files": ["names.csv"]})
    joined, controls = answer.json()[0]["notes"]
    assert joined.startswith("1 row with a byte order mark")
    assert controls.startswith("1 row with control characters")


def test_file_outside_of_the_roots_is_refused(editor: Client, shop: System, landing: Path):
    answer = send(editor, "post", "detect-file/", {"system": shop.short_name, "files": ["/etc/passwd"]})
    assert answer.json()[0]["error"]["code"] == "OUTSIDE_ROOTS"


def test_viewer_may_not_detect_files(viewer: Client, shop: System, landing: Path):
    answer = send(viewer, "post", "detect-file/", {"system": shop.short_name, "files": ["report.csv"]})
    assert answer.status_code == 403
