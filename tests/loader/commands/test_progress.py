"""Progress of a load run on the terminal."""

import io

from loader.management.run_output import LiveTable, PlainLines, counts_text, progress_on
from loader.models import DatasetRun, LoadRun


def run(**fields) -> LoadRun:
    return LoadRun(run_id="r", status="running", phase="loading", **fields)


def row(name: str, status: str, ordinal: int = 1, **fields) -> DatasetRun:
    return DatasetRun(qualified_name=name, status=status, ordinal=ordinal, **fields)


def test_plain_lines_print_each_change_once():
    output = []
    lines = PlainLines(output.append)
    for rows in (
        [row("a", "running", phase="reading"), row("b", "queued")],
        [row("a", "running", phase="writing"), row("b", "queued")],
        [
            row("a", "succeeded", counts={"rows": 28867, "new": 4, "deleted": 0}, seconds=1.26),
            row("b", "skipped", skipped_because="a"),
        ],
    ):
        lines.show(run(), rows)
    assert output == [
        "r running: loading",
        "  a running (reading)",
        "  a succeeded (28,867 rows, 4 new, 1.3 s)",
        "  b skipped (because of a)",
    ]


def test_counts_text_includes_quarantined_superseded_and_late_rows():
    counts = {"rows": 175, "quarantined": 112, "superseded": 3, "beyond_horizon": 2}
    assert counts_text(counts) == "175 rows, 3 superseded, 112 quarantined, 2 late beyond the horizon, turned away"


def test_a_failure_shows_its_reason():
    output = []
    PlainLines(output.append).show(run(), [row("a", "failed", error={"code": "X", "message": "no file"})])
    assert output[-1] == "  a failed (no file)"


def test_live_table_redraws_in_place_and_fits_the_screen(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "8")
    stream = io.StringIO()
    table = LiveTable(stream)
    rows = [row(f"rawcore.table_with_a_long_name_{i}", "running", i, phase="comparing") for i in range(20)]
    table.show(run(), rows)
    first = stream.getvalue()
    assert first.count("\n") == 7
    assert "and 15 more" in first
    assert all(len(line) < 40 + len("\x1b[2K") for line in first.splitlines())
    table.show(run(), rows)
    assert stream.getvalue()[len(first) :].startswith("\x1b[7F")


def test_progress_is_plain_lines_in_a_file_and_a_table_on_a_terminal():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    assert isinstance(progress_on(io.StringIO(), print), PlainLines)
    assert isinstance(progress_on(Terminal(), print), LiveTable)
