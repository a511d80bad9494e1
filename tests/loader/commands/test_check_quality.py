"""``manage.py check_quality``: results, exit codes and output."""

import io
import json

import pytest
from django.core.management import call_command

from elevata.accounts.cli import CommandExit
from loader.management import run_command
from loader.models import CheckResult
from metadata.models import QualityCheck
from metadata.services.quality import create_check
from tests.loader.airports import target

pytestmark = pytest.mark.django_db(transaction=True)

AIRPORT = "rawcore.rc_air_airport"


@pytest.fixture
def local(monkeypatch, make_runner):
    """Make --local use the scripted runner."""
    monkeypatch.setattr(run_command, "Runner", make_runner)


@pytest.fixture
def name_check(airports) -> QualityCheck:
    arguments = {"columns": ["name"]}
    return create_check(dataset=target(AIRPORT), name="named", kind="not_null", severity="stop", arguments=arguments)


def check(*arguments: str) -> tuple[int, str, str]:
    """Run the command; return exit code, output and the line that explains a failure."""
    out = io.StringIO()
    try:
        call_command("check_quality", *arguments, stdout=out, stderr=io.StringIO())
    except CommandExit as end:
        return end.returncode, out.getvalue(), str(end)
    return 0, out.getvalue(), ""


def answer(check: QualityCheck, outcome: str, failed: int) -> dict:
    own = {"key": str(check.key), "name": check.name, "kind": check.kind, "severity": check.severity}
    return {"quality": {"table_version": 3, "results": [own | {"outcome": outcome, "failed": failed, "total": 9}]}}


def test_datasets_with_checks_are_checked_and_their_results_stored(name_check, local, script):
    script.tell(answers=answer(name_check, "passed", 0))
    code, out, _ = check("--local")
    assert code == 0
    assert out.splitlines() == [f"{AIRPORT}: 1 of 1 checks passed", "1 datasets checked"]
    stored = CheckResult.objects.get()
    assert (stored.run, stored.dataset, stored.outcome, stored.total) == (None, target(AIRPORT), "passed", 9)
    body = script.seen("read")[0]["body"]
    assert [spec["key"] for spec in body["arguments"]["checks"]] == [str(name_check.key)]


def test_a_failed_check_that_stops_ends_the_command_with_1(name_check, local, script):
    script.tell(answers=answer(name_check, "stopped", 2))
    code, out, why = check(AIRPORT, "--local", "--json")
    assert (code, why) == (1, f"failed are {AIRPORT}.named")
    (dataset,) = json.loads(out)["datasets"]
    assert dataset["stopping"] == [f"{AIRPORT}.named"]


def test_a_table_that_cannot_be_checked_ends_the_command_with_1(name_check, local):
    code, out, _ = check("--local")
    assert (code, out) == (1, f"{AIRPORT}: not checked: it is not there\n")


def test_words_select_the_datasets_with_checks(name_check, local, script):
    script.tell(answers=answer(name_check, "passed", 0))
    code, out, _ = check("--local", "rawcore.*")
    assert (code, out.splitlines()[-1]) == (0, "1 datasets checked")


def test_an_unknown_dataset_ends_the_command_with_4(name_check):
    assert check("rawcore.nothing")[0] == 4
    assert check("tag:nothing")[0] == 4
