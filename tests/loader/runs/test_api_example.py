"""Worked example of docs/use/api.md: its Python runs unchanged, its curl commands make the same requests."""

import re
import shlex
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.db import connection

from architecture.models import Refresh
from architecture.services.environments import current_environment
from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.accounts.services.tokens import create_token
from elevata.accounts.services.users import create_user
from loader import tasks
from loader.models import LoadRun, ReadRequest
from loader.runner.worker import Workplace
from metadata.services.datasets.targets import update_target_column
from tests.architecture.world import Warehouse, World, customers, person, put_policy_in_force
from tests.loader.installation import make_installation, working
from tests.loader.processes import start, wait_until
from tests.services.process import free_port

TEXT = (Path(settings.BASE_DIR) / "docs" / "use" / "api.md").read_text()
ROLES = {"ada": ("editor", "operator"), "bob": ("approver",)}
DELIVERED = "customer_id,full_name\n1,Ada Byron\n2,Bob Kahn\n"
AS_OF = {
    "table_version": 1,
    "columns": ["customer_id", "full_name"],
    "rows": [["1", "Ada Byron"], ["2", "Bob Kahn"]],
    "truncated": False,
}


def blocks(language: str) -> str:
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.M | re.S))


def requests_of_curl() -> list[tuple[str, re.Pattern]]:
    """Return (method, path pattern) of every curl command; a variable matches one part of a path."""
    routes = []
    for line in re.findall(r"^curl .*?(?=^curl |\Z)", blocks("sh"), re.M | re.S):
        words = shlex.split(line)
        (url,) = [word for word in words if word.startswith("$API/")]
        sends = {"-d", "-F"} & set(words)
        method = words[words.index("-X") + 1] if "-X" in words else "POST" if sends else "GET"
        path = re.sub(r"\\\$[A-Z]+", "[^/]+", re.escape(url.removeprefix("$API/").partition("?")[0]))
        routes.append((method, re.compile(f"/api/v1/{path}")))
    return routes


def run_example(monkeypatch: pytest.MonkeyPatch, **variables: str) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the variables of the page's Python example, and (method, path) of every request it made."""
    made: list[tuple[str, str]] = []
    send = httpx.Client.send

    def record_request(self: httpx.Client, request: httpx.Request, **options: Any) -> httpx.Response:
        made.append((request.method, request.url.path))
        return send(self, request, **options)

    monkeypatch.setattr(httpx.Client, "send", record_request)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    left: dict[str, Any] = {}
    exec(compile(blocks("python"), "docs/use/api.md", "exec"), left)
    return left, made


@pytest.fixture
def busy_worker(make_runner, monkeypatch) -> Iterator[None]:
    """Worker that performs everything queued, with a scripted runner."""
    place, over = Workplace(make_runner=make_runner), threading.Event()
    monkeypatch.setattr(tasks, "_workplace", place)

    def work() -> None:
        try:
            while not over.wait(0.1):
                place.work()
                for model in (ReadRequest, Refresh):
                    for pk in list(model.objects.filter(status="queued").values_list("pk", flat=True)):
                        place.perform(pk)
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    yield
    over.set()
    thread.join(30)
    place.close()


def with_blocked_change() -> World:
    """Return an installation in use: another user's change of a table is blocked, and so is its report."""
    world = World(
        person("eve", Role.EDITOR), person("fay"), person("gil", Role.OPERATOR), Warehouse(current_environment())
    )
    staff = customers(world.author, "rc_hr_staff")
    world.executed()
    balance = staff.columns.get(name="balance")
    with acting_as(world.author):
        update_target_column(column=balance, expected_version=balance.version, type="integer")
    assert world.report().status == "blocked"
    return world


def observed(world: World) -> dict[str, Any]:
    return {key: asdict(table) for key in world.warehouse.shapes if (table := world.warehouse.table(key))}


@pytest.mark.embedded_only
@pytest.mark.django_db(transaction=True)
def test_documented_api_example_runs_unchanged(live_server, busy_worker, script, tmp_path, monkeypatch, settings):
    settings.SOURCE_ROOTS = [str(tmp_path)]
    settings.BATCH_FOLDER = str(tmp_path / "batches")
    blocked = with_blocked_change()
    script.tell(answers={"as_of": AS_OF}, observed=observed(blocked))
    put_policy_in_force(current_environment(), {"approvals": {"safe": {"count": 1}}})
    tokens = {name: create_token(user=create_user(name=name, roles=roles))[1] for name, roles in ROLES.items()}
    left, made = run_example(
        monkeypatch,
        ELEVATA_URL=live_server.url,
        ADA_TOKEN=tokens["ada"],
        BOB_TOKEN=tokens["bob"],
        DELIVERIES=str(tmp_path),
    )
    assert left["names"] == ["Ada Byron", "Bob Kahn"]
    assert LoadRun.objects.get(kind="history_batch").reason == "first delivery"
    commands = requests_of_curl()
    for method, pattern in commands:
        assert any(method == sent and pattern.fullmatch(path) for sent, path in made), (method, pattern.pattern)
    for sent, path in made:
        assert any(method == sent and pattern.fullmatch(path) for method, pattern in commands), (sent, path)


@pytest.mark.spark
@pytest.mark.nightly
def test_documented_api_example_runs_on_spark(tmp_path, monkeypatch):
    installation = make_installation(tmp_path / "data")
    tokens = {}
    for name, roles in ROLES.items():
        chosen = [part for role in roles for part in ("--role", role)]
        tokens[name] = installation.json("create_user", name, *chosen, "--token")["token"]
    installation.allow(approvals={"safe": {"count": 1}})
    landing = installation.folder / "landing"
    (landing / "customer.csv").write_text(DELIVERED)
    port = free_port()
    with (tmp_path / "web.log").open("w") as log, working(installation):
        web = start(installation.folder, "runserver", "--noreload", f"127.0.0.1:{port}", output=log)
        try:
            wait_until(lambda: _answers(port) or web.poll() is not None, 60)
            left, _ = run_example(
                monkeypatch,
                ELEVATA_URL=f"http://127.0.0.1:{port}",
                ADA_TOKEN=tokens["ada"],
                BOB_TOKEN=tokens["bob"],
                DELIVERIES=str(landing),
            )
        finally:
            web.terminate()
            web.wait(30)
    assert left["names"] == ["Ada Byron", "Bob Kahn"]


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=5).status_code == 200
    except httpx.TransportError:
        time.sleep(0.2)
        return False
