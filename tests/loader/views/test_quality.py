"""Quality of a dataset on its page, on the page of a run, and downstream."""

import pytest
from django.test import Client
from django.utils import timezone

from elevata.accounts.roles import Role
from loader.models import CheckResult, LoadRun
from metadata.models import DatasetInput, QualityCheck, TargetDataset
from metadata.services.quality import create_check
from tests.architecture.world import person as someone
from tests.elevata.web.html import text_of
from tests.elevata.web.pages import words
from tests.loader.factories import EnvironmentFactory, LoadRunFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def check(warehouse: TargetDataset) -> QualityCheck:
    return create_check(dataset=warehouse, name="named", kind="not_null", arguments={"columns": ["name"]})


def add_result(check: QualityCheck, outcome: str = "warned", run: str = "good", **values) -> CheckResult:
    dataset = check.dataset
    return CheckResult.objects.create(
        **{
            "run": LoadRun.objects.get(run_id=run),
            "environment": EnvironmentFactory(),
            "dataset": dataset,
            "dataset_key": dataset.key,
            "dataset_name": str(dataset),
            "check_key": check.key,
            "check_name": check.name,
            "kind": check.kind,
            "severity": check.severity,
            "outcome": outcome,
            "failed": 2,
            "total": 9,
            "samples": ["icao=KJFK"],
            "at": timezone.now(),
            **values,
        }
    )


def page_of(dataset: TargetDataset, part: str = "quality/") -> str:
    return f"/datasets/{dataset.key}/{part}"


def test_the_page_shows_the_newest_result_and_draws_the_last_ones_with_their_table(reader: Client, check: QualityCheck):
    add_result(check, "passed", failed=0, run="bad")
    add_result(check)
    page = text_of(reader, page_of(check.dataset))
    assert "Warned 2 of 9 rows failed" in words(page)
    assert 'aria-label="Last 2 results: 1 passed, 1 warned"' in page
    assert page.count('class="bar is-') == 2
    assert "/load-runs/bad/" in page
    assert "icao=KJFK" in page
    assert "Add check" not in page


def test_keys_of_failed_rows_of_a_sensitive_dataset_are_shown_to_stewards_alone(reader: Client, check: QualityCheck):
    add_result(check)
    check.dataset.columns.filter(name="name").update(pii=True)
    assert "icao=KJFK" not in text_of(reader, page_of(check.dataset))
    steward = Client()
    steward.force_login(someone("sue", Role.STEWARD))
    assert "icao=KJFK" in text_of(steward, page_of(check.dataset))


def test_the_page_of_a_run_has_the_results_of_its_datasets(reader: Client, check: QualityCheck):
    add_result(check)
    assert "Warned named 2 of 9 rows failed" in words(text_of(reader, "/load-runs/good/"))
    assert "named 2 of 9" not in words(text_of(reader, "/load-runs/bad/"))


def test_a_dataset_downstream_says_that_its_data_failed_checks(reader: Client, check: QualityCheck, warehouse):
    reading = TargetDataset.objects.get(name="rc_net_route")
    other = create_check(dataset=warehouse, name="other", kind="row_count", arguments={"minimum": "1"})
    mark = "Built on data that failed"
    assert mark not in text_of(reader, page_of(reading, ""))
    DatasetInput.objects.create(dataset=reading, upstream=warehouse, ordinal=9)
    add_result(check)
    add_result(other)
    text = words(text_of(reader, page_of(reading, "")))
    assert f"{mark} 2 checks: rawcore.rc_air_airport (2)" in text
    assert mark not in text_of(reader, page_of(warehouse, ""))
    history = TargetDataset.objects.get(history_of=warehouse)
    assert f"{mark} 2 checks" in words(text_of(reader, page_of(history, "")))


def test_a_check_that_passed_since_marks_nothing(reader: Client, check: QualityCheck, warehouse):
    history = TargetDataset.objects.get(history_of=warehouse)
    add_result(check)
    LoadRunFactory(run_id="later")
    add_result(check, "passed", run="later", failed=0)
    assert "Built on data" not in text_of(reader, page_of(history, ""))
