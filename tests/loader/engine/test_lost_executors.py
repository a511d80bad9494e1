"""Lost executors and clusters during a load; real losses are in tests/loader/runs/test_cluster.py."""

import threading
from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException

from loader.engine import runner
from loader.engine.java_errors import lost_executor
from loader.engine.loads.dataset_load import Outcome
from loader.engine.loads.tries import retry
from loader.engine.session import RunnerConfig

LOST = PySparkException("Checkpoint block rdd_7_0 not found! Either the executor is gone, or …")


@pytest.mark.parametrize(
    ("failure", "lost"),
    [
        (LOST, True),
        (PySparkException("Job aborted: ExecutorLostFailure (executor 1 exited caused by one of the tasks)"), True),
        (PySparkException("a column cannot be resolved"), False),
        (ValueError("no failure of a job"), False),
    ],
)
def test_lost_executor_is_distinguished_from_other_failures(failure, lost):
    assert lost_executor(failure) is lost


def test_retry_loads_a_dataset_again_after_a_lost_executor_with_a_warning():
    failures, outcome = [LOST, LOST], Outcome()

    def load() -> None:
        if failures:
            raise failures.pop()

    retry(load, outcome)
    assert [warning.partition(":")[0] for warning in outcome.warnings] == [
        "An executor was lost with rows that only it held"
    ] * 2


def test_executors_that_are_lost_every_time_fail_the_dataset():
    def load() -> None:
        raise LOST

    with pytest.raises(PySparkException, match="Checkpoint block"):
        retry(load, Outcome())


def test_retry_does_not_repeat_other_failures():
    tries = []

    def load() -> None:
        tries.append(1)
        raise PySparkException("a column cannot be resolved")

    with pytest.raises(PySparkException):
        retry(load, Outcome())
    assert len(tries) == 1


class Ended(Exception):
    """The process ended."""


class Events:
    """Events that a runner emitted."""

    def __init__(self) -> None:
        self.emitted: list[tuple[str, dict]] = []

    def emit(self, event: str, **fields) -> None:
        self.emitted.append((event, fields))


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Events:
    def ended(code: int) -> None:
        raise Ended(code)

    monkeypatch.setattr(runner.os, "_exit", ended)
    monkeypatch.setattr(runner, "_WATCH_EVERY", 0)
    return Events()


def make_runner(events: Events, *, executors: int = 1, stopped: bool = False) -> runner.Runner:
    """Return a runner of a session with so many executors."""
    status = SimpleNamespace(size=lambda: executors + 1)
    java = SimpleNamespace(isStopped=lambda: stopped, getExecutorMemoryStatus=lambda: status)
    context = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: java), master="local[1]")
    return runner.Runner(SimpleNamespace(sparkContext=context), RunnerConfig(warehouse="w"), events)


def test_runner_with_a_stopped_session_exits_with_a_reason_and_no_answer(events: Events):
    stopped = make_runner(events, stopped=True)
    stopped._cancels["one"] = threading.Event()
    with pytest.raises(Ended):
        stopped._answer({"id": "one", "kind": "ping"})
    assert [(event, fields["error"]["code"]) for event, fields in events.emitted] == [("fatal", "SPARK_STOPPED")]


def test_runner_exits_if_a_request_waits_too_long_for_executors(events: Events, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runner, "_ALONE_FOR", -1)
    alone = make_runner(events, executors=0)
    alone._cancels["one"] = threading.Event()
    with pytest.raises(Ended):
        alone.watch_cluster()
    assert [fields["error"]["code"] for _, fields in events.emitted] == ["NO_EXECUTORS"]
