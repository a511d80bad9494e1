"""/healthz and /readyz: health of components without sign-in and without details."""

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from elevata.jobs.models import Worker
from elevata.ops import health_checks
from elevata.ops.health_checks import NotReady
from tests.elevata.web.html import html_of

FINE: Callable[[], None] = lambda: None  # noqa: E731


@pytest.fixture(autouse=True)
def without_cached_states() -> Iterator[None]:
    health_checks.forget()
    yield
    # A probe that still hangs would answer the next test.
    for probe in list(health_checks._running.values()):
        probe.result(timeout=60)
    health_checks.forget()


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], None]]:
    """Replace every health probe by one that succeeds, until a test changes it."""
    fine = dict.fromkeys(health_checks.CHECKS, FINE)
    monkeypatch.setattr(health_checks, "CHECKS", fine)
    return fine


def refuse() -> None:
    raise NotReady("postgres://elevata:hunter22@db.internal:5432 does not answer")


def test_healthz_returns_200_while_the_database_is_down(client: Client, probes: dict) -> None:
    probes["database"] = refuse
    assert client.get("/healthz").status_code == 200


def test_readyz_returns_200_if_all_components_are_up(client: Client, probes: dict) -> None:
    answer = client.get("/readyz")
    body = answer.json()
    assert (answer.status_code, body["status"]) == (200, "ready")
    assert {name: component["status"] for name, component in body["checks"].items()} == dict.fromkeys(
        ("database", "broker", "worker", "warehouse"), "up"
    )


@pytest.mark.parametrize("name", ["database", "broker", "worker", "warehouse"])
def test_readyz_returns_503_and_names_the_component_that_is_down(client: Client, probes: dict, name: str) -> None:
    probes[name] = refuse
    answer = client.get("/readyz")
    states = {each: component["status"] for each, component in answer.json()["checks"].items()}
    assert answer.status_code == 503
    assert [each for each, state in states.items() if state == "down"] == [name]


def test_readyz_shows_no_host_and_no_reason(client: Client, probes: dict) -> None:
    probes["database"] = refuse
    page = html_of(client.get("/readyz"))
    assert not any(word in page for word in ("hunter22", "db.internal", "5432", "answer"))


def test_hanging_component_is_down_after_the_time_limit(client: Client, probes: dict, monkeypatch) -> None:
    let_go = threading.Event()
    probes["broker"] = let_go.wait
    started = time.monotonic()
    states = {component.name: component.status for component in health_checks.check_components(limit=0.3)}
    let_go.set()
    assert states == {"database": "up", "broker": "down", "worker": "up", "warehouse": "up"}
    assert time.monotonic() - started < 3


def test_hanging_component_is_not_probed_again(probes: dict) -> None:
    let_go, begun, calls = threading.Event(), threading.Event(), []

    def hang() -> None:
        calls.append(1)
        begun.set()
        let_go.wait(60)

    probes["broker"] = hang
    for _ in range(3):
        health_checks.check_components(["broker"], limit=0.05)
    assert begun.wait(30)
    let_go.set()
    assert len(calls) == 1


def test_component_state_is_cached_between_requests(probes: dict) -> None:
    calls: list[int] = []
    probes["database"] = lambda: calls.append(1)
    for _ in range(20):
        health_checks.check_components(["database"])
    assert len(calls) == 1


def test_readyz_checks_only_the_named_components(client: Client, probes: dict) -> None:
    probes["worker"] = refuse
    answer = client.get("/readyz?only=database&only=broker")
    assert (answer.status_code, sorted(answer.json()["checks"])) == (200, ["broker", "database"])


def test_readyz_refuses_an_unknown_component(client: Client) -> None:
    assert client.get("/readyz?only=databse").status_code == 400


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_pages_refuse_post(client: Client, probes: dict, path: str) -> None:
    assert client.post(path).status_code == 405


# --- probes --------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
@pytest.mark.embedded
def test_a_worker_is_up_while_its_heartbeat_is_fresh() -> None:
    def states() -> list[str]:
        health_checks.forget()
        return [component.status for component in health_checks.check_components(["worker"])]

    now = timezone.now()
    assert states() == ["down"]
    worker = Worker.objects.create(name="w", started_at=now, heartbeat_at=now)
    assert states() == ["up"]
    worker.heartbeat_at = now - timedelta(minutes=5)
    worker.save()
    assert states() == ["down"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.embedded
def test_database_and_broker_of_this_installation_answer() -> None:
    assert {
        component.name: component.status for component in health_checks.check_components(["database", "broker"])
    } == {
        "database": "up",
        "broker": "up",
    }


def test_a_broker_that_is_away_is_down(settings) -> None:
    settings.CELERY_BROKER_URL = "filesystem://"
    settings.BROKER_FOLDER = Path("/nowhere")
    with pytest.raises(NotReady):
        health_checks._broker()


def test_a_warehouse_that_is_still_to_be_made_is_fine(settings, tmp_path: Path) -> None:
    settings.WAREHOUSE = str(tmp_path / "not" / "yet")
    health_checks._warehouse()


def test_a_warehouse_that_is_no_folder_is_down(settings, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    settings.WAREHOUSE = str(tmp_path / "file")
    with pytest.raises(NotReady):
        health_checks._warehouse()


@pytest.mark.django_db
def test_object_store_warehouse_is_ready_if_a_worker_has_a_runner(settings) -> None:
    settings.WAREHOUSE = "s3a://bucket/warehouse"
    now = timezone.now()
    worker = Worker.objects.create(name="w", started_at=now, heartbeat_at=now)
    with pytest.raises(NotReady):
        health_checks._warehouse()
    worker.runner_pid = 7
    worker.save()
    health_checks._warehouse()
