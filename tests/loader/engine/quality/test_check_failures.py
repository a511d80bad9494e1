"""Failures while models and their checks run: of the SELECT, of a check, and of the cluster."""

from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException

from loader.contract.manifest.checks import CheckSpec
from loader.domain.quality.checks import CompiledCheck
from loader.engine.historization.model_queries import failures_of
from loader.engine.quality import frame_checks
from loader.engine.quality.frame_checks import RowChecker
from metadata.domain.quality.check_kinds import NOT_NULL, UNIQUE

LOST = PySparkException("Job aborted: ExecutorLostFailure (executor 1 exited caused by one of the tasks)")
WRONG = PySparkException("[CAST_INVALID_INPUT] The value cannot be cast")


def compiled(kind: str) -> CompiledCheck:
    return CompiledCheck(CheckSpec("k", "check", kind, "warn", {"columns": ["id"]}), "", {"total": "count(1)"})


def run(monkeypatch: pytest.MonkeyPatch, failure: Exception, kind: str) -> str:
    """Return the outcome of a check with this failure, in the common pass or in a query of its own."""

    def fail(*_) -> None:
        raise failure

    monkeypatch.setattr(frame_checks, "_aggregated", fail)
    monkeypatch.setattr(RowChecker, "_repeated", fail)
    checker = RowChecker(None, "w", datetime(2024, 1, 1, tzinfo=UTC))
    if kind == UNIQUE:
        return checker._evaluated(compiled(kind), None, {"total": 1}).outcome
    return checker._numbers(None, {"k": compiled(kind)})[1]["k"].outcome


@pytest.mark.parametrize("kind", [NOT_NULL, UNIQUE])
def test_check_that_raises_an_error_has_the_outcome_broken(monkeypatch, kind):
    assert run(monkeypatch, WRONG, kind) == "broken"


@pytest.mark.parametrize("kind", [NOT_NULL, UNIQUE])
def test_lost_executor_is_raised_instead_of_a_check_result(monkeypatch, kind):
    with pytest.raises(PySparkException, match="ExecutorLostFailure"):
        run(monkeypatch, LOST, kind)


def test_lost_executor_is_raised_instead_of_a_model_failure(monkeypatch):
    monkeypatch.setattr(PySparkException, "getCondition", lambda own: "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND")
    with pytest.raises(PySparkException, match="ExecutorLostFailure"), failures_of("mart.m"):
        raise LOST
