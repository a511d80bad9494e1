"""``manage.py check_history``: checks, exit codes and output."""

import io
import json
import threading

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from elevata.accounts.cli import CommandExit
from elevata.jobs import states
from elevata.jobs.models import Worker
from loader.management import run_command
from loader.models import ReadRequest
from loader.services.reads.attempts import perform_read
from metadata.domain.selection import HINT

pytestmark = pytest.mark.django_db(transaction=True)

FINE = {"table_version": 3, "rawcore_version": 2, "versions": 28863, "findings": [], "rawcore_behind": False}
OVERLAP = {
    "code": "OVERLAP",
    "message": "versions that start before the one before them ends",
    "count": 1200,
    "samples": [{"key": {"icao": "EDDB"}, "start": "2024-01-01 00:00:00"}, {"key": {"icao": None}}],
}
AIRPORT, ROUTE = "rawcore.rc_air_airport", "rawcore.rc_net_route"


@pytest.fixture
def local(monkeypatch, make_runner):
    """Make --local use the scripted runner."""
    monkeypatch.setattr(run_command, "Runner", make_runner)


@pytest.fixture
def worker(monkeypatch, runner):
    """Live worker that answers requests in a thread."""
    now = timezone.now()
    Worker.objects.create(name="w", started_at=now, heartbeat_at=now)
    working = []

    def do(read_pk):
        try:
            perform_read(read_pk, worker="w", runner=runner)
        finally:
            connection.close()

    def wake(read_pk):
        working.append(threading.Thread(target=do, args=(read_pk,)))
        working[-1].start()
        return ""

    monkeypatch.setattr("elevata.jobs.submission.wake", wake)
    yield
    for thread in working:
        thread.join(20)


def check(*arguments: str) -> tuple[int, str, str]:
    """Run the command; return exit code, output and the line that explains a failure."""
    out = io.StringIO()
    try:
        call_command("check_history", *arguments, stdout=out, stderr=io.StringIO())
    except CommandExit as end:
        return end.returncode, out.getvalue(), str(end)
    return 0, out.getvalue(), ""


def test_command_without_names_checks_every_history(airports, local, script):
    script.tell(answers={AIRPORT: FINE, ROUTE: FINE})
    code, out, _ = check("--local")
    assert code == 0
    assert out.splitlines() == [
        f"{AIRPORT}: 28,863 versions, no findings",
        f"{ROUTE}: 28,863 versions, no findings",
        "2 histories checked, no findings",
    ]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("raw.raw_net_route+",), [ROUTE]),
        (("layer:rawcore",), [AIRPORT, ROUTE]),
        (("*_airport", ROUTE), [AIRPORT, ROUTE]),
    ],
)
def test_words_select_the_histories_among_their_datasets(airports, local, script, words, names):
    script.tell(answers={AIRPORT: FINE, ROUTE: FINE})
    code, out, _ = check(*words, "--local", "--json")
    assert (code, [history["dataset"] for history in json.loads(out)["histories"]]) == (0, names)


def test_word_that_selects_nothing_exits_with_4(airports):
    code, _, message = check("tag:nothing")
    assert (code, message) == (4, f"no dataset is selected by tag:nothing; {HINT}")


def test_findings_exit_with_1_and_list_counts_and_keys(airports, worker, script):
    script.tell(answers={AIRPORT: FINE | {"findings": [OVERLAP], "rawcore_behind": True}, ROUTE: FINE})
    code, out, message = check()
    assert (code, message) == (1, "1 of 2 histories have findings")
    named = "icao=EDDB from 2024-01-01 00:00:00; icao=NULL"
    assert f"  OVERLAP: 1,200 versions that start before the one before them ends: {named}" in out
    assert "rawcore has not followed the newest run" in out


def test_dataset_given_by_table_and_history_name_is_checked_once(airports, local, script):
    script.tell(answers={AIRPORT: FINE})
    code, out, _ = check(AIRPORT, f"{AIRPORT}_hist", "--local", "--samples", "7")
    assert (code, len(out.splitlines())) == (0, 2)
    assert [request["body"]["samples"] for request in script.seen("check")] == [7]


def test_json_is_one_document(airports, local, script):
    script.tell(answers={AIRPORT: FINE | {"findings": [OVERLAP]}})
    code, out, _ = check("--local", "--json")
    document = json.loads(out)
    assert (code, document["findings"]) == (1, 1)
    first, second = document["histories"]
    assert (first["dataset"], first["status"], first["findings"]) == (AIRPORT, "findings", [OVERLAP])
    assert (second["dataset"], second["status"]) == (ROUTE, "not_loaded")


def test_dataset_that_was_never_loaded_is_not_a_finding(airports, local):
    code, out, _ = check(AIRPORT, "--local")
    assert (code, f"{AIRPORT}: nothing was loaded yet" in out) == (0, True)


def test_failed_check_exits_with_1_and_other_histories_are_checked(airports, local, script):
    script.tell(answers={AIRPORT: {"code": "READ_TIMEOUT", "message": "it took too long"}, ROUTE: FINE})
    code, out, message = check("--local")
    assert (code, message) == (1, "1 could not be checked")
    assert f"{AIRPORT}: not checked: it took too long" in out
    assert f"{ROUTE}: 28,863 versions, no findings" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rawcore.rc_air_airprt"], "did you mean rawcore.rc_air_airport"),
        (["raw.raw_air_airport"], "raw.raw_air_airport is not historized"),
        (["--samples", "-1"], "is not a number from 0 to 1000"),
        (["--colour"], "unrecognized arguments: --colour"),
    ],
)
def test_invalid_input_exits_with_4_and_requests_no_read(airports, local, arguments, message):
    code, out, line = check("--local", *arguments)
    assert (code, out) == (4, "")
    assert message in line
    assert "\n" not in line
    assert not ReadRequest.objects.exists()


def test_missing_worker_is_reported_in_one_line_and_no_read_remains(airports):
    code, _, message = check()
    assert (code, message) == (1, "no worker is running: start one with 'make serve', or use --local")
    assert not ReadRequest.objects.exists()


def test_check_is_withdrawn_when_its_worker_disappears(airports, worker, monkeypatch):
    def delete_worker(*_):
        Worker.objects.all().delete()
        return ""

    monkeypatch.setattr("elevata.jobs.submission.wake", delete_worker)
    monkeypatch.setattr(states, "WORKER_SILENT_AFTER", states.WORKER_SILENT_AFTER * 0)
    code, _, message = check()
    assert (code, "no worker is running" in message) == (1, True)
    assert ReadRequest.objects.get().error["code"] == "WITHDRAWN"


def test_unreachable_broker_is_reported_in_one_line_and_the_read_fails(airports, worker, monkeypatch):
    monkeypatch.setattr("elevata.jobs.submission.wake", lambda _: "connection refused")
    code, _, message = check()
    assert (code, message) == (1, "the broker does not answer: connection refused")
    assert ReadRequest.objects.get().status == "failed"


def test_data_folder_in_use_is_reported_in_one_line_and_no_read_remains(airports, local, make_runner):
    make_runner("worker 7").start()
    code, _, message = check("--local")
    assert (code, "is in use by worker 7" in message) == (1, True)
    assert not ReadRequest.objects.exists()
