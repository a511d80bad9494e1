"""``manage.py test_models``: output and exit codes; one test runs the tests of the flights' models on Spark."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from elevata.accounts.cli import CommandExit
from loader.domain.model_tests import ModelTestOutcome
from loader.management.commands import test_models
from metadata.models import SourceDataset
from metadata.services.datasets.generation import generate_targets
from metadata.services.exchange.metadata_files import import_metadata

pytestmark = pytest.mark.django_db

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
FLIGHTS = EXAMPLES / "flights"
LATE = "the share of late flights counts flights with an arrival only"


@pytest.fixture
def flights() -> None:
    """Import the metadata of the example and of the airports that one of its models joins."""
    for path in (EXAMPLES / "airports" / "systems" / "air.yaml", FLIGHTS / "systems"):
        import_metadata(path)
    for source in SourceDataset.objects.all():
        generate_targets(source_dataset=source)
    for name in ("references.yaml", "schemas.yaml", "models", "airports"):
        import_metadata(FLIGHTS / name)


@pytest.fixture
def failing_test(monkeypatch) -> None:
    """Replace Spark: every test but one passes."""

    def outcomes(_self, tests):
        bad = {"missing": (("United", "4"),), "columns": ("airline", "flights"), "message": "1 missing"}
        return [
            ModelTestOutcome(test.name, test.model, test.name != LATE, **(bad if test.name == LATE else {}))
            for test in tests.tests
        ]

    monkeypatch.setattr(test_models.Command, "outcomes", outcomes)


def run(*arguments: str) -> tuple[str, CommandExit | None]:
    out = StringIO()
    try:
        call_command("test_models", *arguments, stdout=out, stderr=StringIO())
    except CommandExit as end:
        return out.getvalue(), end
    return out.getvalue(), None


@pytest.mark.core
def test_a_failing_test_shows_its_rows_and_ends_the_command_with_1(flights, failing_test):
    out, end = run(str(FLIGHTS / "tests.yaml"))
    assert (end.returncode, str(end)) == (1, "1 of 4 tests failed")
    assert f"failed  mart.airline_delay: {LATE}\n  1 missing\n" in out
    assert "  -  United   4" in out


def test_chosen_tests_are_printed_as_json(flights, failing_test):
    out, end = run(str(FLIGHTS / "tests.yaml"), "--select", "cancelled flights have no delay", "--json")
    assert end is None
    (outcome,) = json.loads(out)
    assert (outcome["model"], outcome["passed"]) == ("mart.daily_delay", True)


def test_without_a_file_the_tests_of_described_models_are_run(flights, failing_test):
    out, _ = run("--json")
    models = {outcome["model"] for outcome in json.loads(out)}
    marts = {"mart.airline_delay", "mart.daily_delay", "mart.weather_delay", "mart.destination_delay"}
    assert models == {*marts, "bizcore.flight"}


def test_tests_are_chosen_by_their_model(flights, failing_test):
    out, end = run("--select", "mart.daily_delay", "--json")
    assert ([outcome["model"] for outcome in json.loads(out)], end) == (["mart.daily_delay"], None)


def test_command_without_described_models_runs_no_tests(failing_test):
    assert run("--json") == ("[]\n", None)


def test_invalid_test_file_ends_the_command_with_4(flights, tmp_path):
    path = tmp_path / "tests.yaml"
    path.write_text("format: model-tests/v1\ntests: [{name: a, model: mart.none, expect: []}]\n")
    _, end = run(str(path))
    assert (end.returncode, "tests.yaml:2:" in str(end)) == (4, True)


def entries_of(text: str) -> str:
    return text.partition("tests:\n")[2]


@pytest.mark.spark
def test_the_tests_of_the_example_pass_and_a_wrong_expectation_fails(flights, settings, tmp_path):
    settings.DATA_DIR = str(tmp_path / "data")
    path = tmp_path / "tests.yaml"
    text = (FLIGHTS / "tests.yaml").read_text()
    wrong = entries_of(text).partition("  - name: cancelled")[0].replace(LATE, "wrong").replace("33.3", "25.0")
    path.write_text(text + entries_of((FLIGHTS / "airports" / "tests.yaml").read_text()) + wrong)

    out, end = run(str(path), "--json")

    outcomes = {outcome["name"]: outcome for outcome in json.loads(out)}
    assert [name for name, outcome in outcomes.items() if not outcome["passed"]] == ["wrong"]
    assert outcomes["wrong"]["missing"] == [["United", "4", "10.0", "25.0"]]
    assert outcomes["wrong"]["unexpected"] == [["United", "4", "10.0", "33.3"]]
    assert end.returncode == 1
