"""Tests of docs/operate/operations.md: its commands exist and have the described effect.

No container is started. Names are checked against their definitions; commands that need no engine are run as
processes, with a stand-in for ``docker`` that runs the command locally.
"""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from django.core.management import get_commands, load_command_class

from elevata.bootstrap.places import ROOT
from elevata.ops import metrics
from tests.loader.processes import CommandServer, make_folder
from tests.services.process import free_port

DOC = (ROOT / "docs" / "operate" / "operations.md").read_text()
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
EXAMPLE = (ROOT / ".env.example").read_text()


def blocks(under: str = "") -> list[str]:
    """Return the shell blocks of the page, or of one of its chapters."""
    text = DOC if not under else DOC.split(f"\n## {under}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)


LINES = [line for block in blocks() for line in block.splitlines() if line]
COMPOSED = [line[line.index("docker compose") :] for line in LINES if "docker compose" in line]
DJANGO = [line for line in LINES if "manage.py" in line]


# --- names of the page ------------------------------------------------------------------------------


@pytest.mark.parametrize("line", COMPOSED)
def test_compose_commands_name_services(line: str) -> None:
    words = shlex.split(re.split(r"[|<>]", line)[0])
    known = {"up", "exec", "run", "stop", "start", "logs", "ps", "build"}
    assert words[2] in known
    named = [word for word in words[3:] if word in SERVICES]
    if words[2] in ("exec", "run", "logs"):
        assert named, line
    if words[2] in ("stop", "start"):
        assert [word for word in words[3:] if word not in SERVICES] == []


@pytest.mark.parametrize("line", DJANGO)
def test_documented_commands_exist_and_accept_their_options(line: str) -> None:
    words = shlex.split(re.split(r"[|<>]", line[line.index("manage.py") :])[0])
    assert words[1] in get_commands()
    parser = load_command_class(get_commands()[words[1]], words[1]).create_parser("manage.py", words[1])
    known = {option for action in parser._actions for option in action.option_strings}
    assert [word for word in words[2:] if word.startswith("--") and word not in known] == []


def test_documented_processes_have_the_options_of_compose() -> None:
    typed = "\n".join(blocks("Without containers"))
    for name, shortened in (("web", ["gunicorn", "elevata.wsgi"]), ("worker", ["worker"]), ("scheduler", ["beat"])):
        command = SERVICES[name]["command"]
        assert all(word in command for word in shortened)
        options = [word for word in command if word.startswith("--")]
        assert [option for option in options if option not in typed] == []


def test_variables_are_explained_in_the_example() -> None:
    named = set(re.findall(r"\b((?:ELEVATA|POSTGRES)_[A-Z_]*[A-Z])\b", DOC)) - {"ELEVATA_TOKEN"}
    assert sorted(name for name in named if not re.search(rf"^#?{name}=", EXAMPLE, re.M)) == []


def test_documented_folders_are_on_volumes() -> None:
    mounted = {mount.split(":")[1] for mount in SERVICES["web"]["volumes"]}
    for folder in re.findall(r" (/var/lib/elevata/\w+)", DOC):
        assert folder in mounted


def test_services_that_use_the_database_are_stopped_for_a_restore() -> None:
    (stop,) = [line for line in LINES if line.startswith("docker compose stop")]
    uses = {
        name
        for name, service in SERVICES.items()
        if service.get("restart") != "no" and "DATABASE_URL" in service.get("environment", {})
    }
    assert set(stop.split()[3:]) == uses


@pytest.mark.django_db
def test_documented_metrics_are_those_that_exist() -> None:
    exposed = set(re.findall(r"^# TYPE (elevata_\w+) ", metrics.exposition().decode(), re.M))
    exposed = {name for name in exposed if not name.endswith("_created")}
    explained = set(re.findall(r"`(elevata_\w+)(?:\{[\w,]+\})?`", DOC))
    assert exposed - explained == set()
    # Without a worker, its metric is missing.
    assert explained - exposed <= {"elevata_worker_heartbeat_age_seconds"}


def test_documented_system_checks_are_those_that_exist() -> None:
    source = (ROOT / "elevata" / "ops" / "checks.py").read_text()
    assert set(re.findall(r'id="(elevata\.\w+)"', source)) == set(re.findall(r"`(elevata\.[WE]\d+)`", DOC))


# --- as processes ----------------------------------------------------------------------------------

STAND_IN = """#!{python}
import os, subprocess, sys
words = sys.argv[2:]
while words[1].startswith("-"):
    del words[1]
what, service, command = words[0], words[1], words[2:]
if what in ("stop", "start"):
    sys.exit(0)
if service == "migrate" and not command:
    command = ["python", "manage.py", "migrate", "--noinput"]
if command[0] == "python":
    command = [sys.executable] + [os.path.join({root!r}, word) if word == "manage.py" else word for word in command[1:]]
sys.exit(subprocess.run(command, env=os.environ | {{"PYTHONPATH": {root!r}}}).returncode)
"""


def surroundings() -> dict[str, str]:
    """Return this process's variables, except the one that allows database access beside a browser."""
    return {name: value for name, value in os.environ.items() if name != "DJANGO_ALLOW_ASYNC_UNSAFE"}


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return a function that runs lines of the page in an empty folder, with an installation of its own."""
    (tmp_path / "bin").mkdir()
    stand_in = tmp_path / "bin" / "docker"
    stand_in.write_text(STAND_IN.format(python=sys.executable, root=str(ROOT)))
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ELEVATA_DATA_DIR", str(tmp_path / "data"))
    work = tmp_path / "work"
    work.mkdir()

    def run(lines: str, *, fails: bool = False, **variables: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", lines],
            cwd=work,
            env={**surroundings(), "PYTHONPATH": str(ROOT), **variables},
            capture_output=True,
            text=True,
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def manage(words: str) -> str:
    return f"{shlex.quote(sys.executable)} {ROOT}/manage.py {words}"


@pytest.fixture(scope="module")
def migrated() -> Iterator[str]:
    """Create a migrated database on the session's PostgreSQL server; return its name."""
    import psycopg

    url = os.environ["DATABASE_URL"]
    with psycopg.connect(url, autocommit=True) as server:
        server.execute("CREATE DATABASE migrated")
    place = {"DATABASE_URL": re.sub(r"/\w+$", "/migrated", url)}
    command = [sys.executable, "manage.py", "migrate", "--noinput", "-v", "0"]
    subprocess.run(command, cwd=ROOT, env={**surroundings(), **place}, check=True)
    yield "migrated"
    with psycopg.connect(url, autocommit=True) as server:
        server.execute("DROP DATABASE migrated WITH (FORCE)")


@pytest.fixture
def own_database(migrated: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Create a database for this test, with tables and without users; programs find it by variables."""
    import psycopg

    url = os.environ["DATABASE_URL"]
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE operations TEMPLATE {migrated}")
        info = server.info
        place = {"PGHOST": info.host, "PGPORT": str(info.port), "PGUSER": info.user}
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DATABASE_URL", re.sub(r"/\w+$", "/operations", url))
    yield
    with psycopg.connect(url, autocommit=True) as server:
        server.execute("DROP DATABASE operations WITH (FORCE)")


def in_own(block: str) -> str:
    """Return the lines with the name of the test's own database."""
    return re.sub(r"(--dbname|custom|--force|createdb --username elevata) elevata\b", r"\1 operations", block)


NEWER = "INSERT INTO django_migrations (app, name, applied) VALUES ('loader', '9999_newer', '2030-01-01')"
CREATE = "create_user {name} --role editor --password analytical-engine-7"


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Return a function that runs a command in one process with the others, in an installation of its own."""
    folder = tmp_path / "data"
    make_folder(folder)
    server: list[CommandServer] = []

    def run(words: str, *, fails: bool = False) -> str:
        if not server:
            server.append(CommandServer(folder, **place()))
        done = server[0].run(*shlex.split(words), seconds=180)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    def place() -> dict[str, str]:
        url = os.environ.get("DATABASE_URL", "")
        return {"DATABASE_URL": url} if url.endswith("/operations") else {}

    yield run
    for process in server:
        process.stop()


@pytest.mark.nightly
@pytest.mark.services
def test_documented_restore_of_postgresql_keeps_chain_and_triggers(
    shell: Callable[..., str], own_database: None
) -> None:
    place = os.environ["DATABASE_URL"]
    shell(manage(CREATE.format(name="ada")))
    (back_up,) = [block for block in blocks("Back up") if "pg_dump" in block]
    (put_back,) = blocks("Restore")
    shell(in_own(back_up))
    shell(manage(CREATE.format(name="eve")))
    text = shell(in_own(put_back))
    assert "intact: " in text
    import psycopg

    with psycopg.connect(place, autocommit=True) as database:
        names = [row[0] for row in database.execute("SELECT username FROM auth_user").fetchall()]
        assert names == ["ada"]
        with pytest.raises(psycopg.errors.RestrictViolation):
            database.execute("DELETE FROM audit_changelogentry")


@pytest.mark.full
@pytest.mark.services
def test_postgresql_database_is_backed_up_and_restored(
    own_database: None, commands: Callable[..., str], tmp_path: Path
) -> None:
    copy = tmp_path / "backups" / "control"
    commands(CREATE.format(name="ada"))
    commands(f"backup {copy}")
    commands(CREATE.format(name="eve"))
    assert "the chain holds" in commands(f"restore {copy}")
    import psycopg

    with psycopg.connect(os.environ["DATABASE_URL"]) as database:
        assert [row[0] for row in database.execute("SELECT username FROM auth_user").fetchall()] == ["ada"]
        database.execute(NEWER)
    commands(f"backup {copy}-newer")
    commands(CREATE.format(name="eve"))
    assert "comes from a newer release" in commands(f"restore {copy}-newer", fails=True)
    with psycopg.connect(os.environ["DATABASE_URL"]) as database:
        assert database.execute("SELECT username FROM auth_user ORDER BY id").fetchall() == [("ada",), ("eve",)]


def in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the embedded defaults, whatever stores the session runs on."""
    for name in ("DATABASE_URL", "CELERY_BROKER_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.full
def test_a_sqlite_database_is_backed_up_and_restored(commands: Callable[..., str], tmp_path: Path) -> None:
    copy = tmp_path / "backups" / "control"
    commands(CREATE.format(name="ada"))
    commands(f"backup {copy}")
    commands(CREATE.format(name="eve"))
    assert "the chain holds" in commands(f"restore {copy}")
    assert "restored from control" in commands("verify_audit")
    import sqlite3

    # An open connection would write its pages into the copy that is restored below.
    with closing(sqlite3.connect(tmp_path / "data" / "control.sqlite3")) as database:
        assert database.execute("SELECT username FROM auth_user").fetchall() == [("ada",)]
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            database.execute("DELETE FROM audit_changelogentry")
    # A copy that was restored without the product is reported until its statement is recorded.
    commands(CREATE.format(name="zoe"))
    database = tmp_path / "data" / "control.sqlite3"
    for beside in ("-wal", "-shm"):
        database.with_name(database.name + beside).unlink(missing_ok=True)
    shutil.copyfile(copy, database)
    assert "and this chain has no such link" in commands("verify_audit", fails=True)
    commands("accept_chain --reason copied")
    assert "intact" in commands("verify_audit")
    # An existing or an altered copy is refused.
    assert "is there already" in commands(f"backup {copy}", fails=True)
    with copy.open("ab") as file:
        file.write(b"x")
    assert "SHA-256 differs" in commands(f"restore {copy}", fails=True)
    # A copy of a newer release is refused before anything is replaced.
    with closing(sqlite3.connect(database)) as stored:
        stored.execute(NEWER)
        stored.commit()
    commands(f"backup {copy}-newer")
    commands(CREATE.format(name="eve"))
    assert "comes from a newer release" in commands(f"restore {copy}-newer", fails=True)
    with closing(sqlite3.connect(database)) as stored:
        assert stored.execute("SELECT username FROM auth_user ORDER BY id").fetchall() == [("ada",), ("eve",)]


def test_documented_installation_passes_check_deploy(
    shell: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that ``check --deploy`` passes with the page's variables and a server's database and broker."""
    (install,) = [block for block in blocks("Install") if "cp .env.example" in block]
    prepare = "\n".join(line for line in install.splitlines() if not line.startswith("docker"))
    output = shell(f"cp {ROOT}/.env.example . && {prepare} && cat .env")
    variables = dict(re.findall(r"^([A-Z_]+)=(.*)$", output, re.M))
    variables |= {"DATABASE_URL": "postgres://elevata:x@db:5432/elevata", "CELERY_BROKER_URL": "redis://redis:6379/0"}
    check = next(line for line in install.splitlines() if "check --deploy" in line)
    assert "no issues" in shell(check, **variables)


@pytest.mark.full
def test_deploy_check_reports_faulty_settings(shell: Callable[..., str], monkeypatch) -> None:
    in_files(monkeypatch)
    text = shell(manage("check --deploy"), CELERY_BROKER_URL="redis://redis:6379/0", ELEVATA_METRICS_ALLOW="0.0.0.0/0")
    assert "elevata.W002" in text
    assert "elevata.W004" in text
    assert "elevata.E001" in shell(manage("check"), ELEVATA_METRICS_ALLOW="everybody", fails=True)


def answer(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=120) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def test_documented_gunicorn_command_starts_the_web_server(
    shell: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Check Gunicorn's two processes: healthy, not ready without a worker, shared metrics, JSON logs."""
    in_files(monkeypatch)
    make_folder(tmp_path / "data")
    typed = next(line for line in LINES if line.startswith(".venv/bin/gunicorn"))
    port = free_port()
    words = shlex.split(typed.replace("127.0.0.1:8000", f"127.0.0.1:{port}"))
    variables = {"ELEVATA_LOG_FORMAT": "json", "ELEVATA_LOG_LEVEL": "INFO", "ELEVATA_METRICS_ALLOW": "127.0.0.1/32"}
    log = tmp_path / "web.log"
    with log.open("w") as output:
        web = subprocess.Popen(
            [str(Path(sys.executable).with_name("gunicorn")), *words[1:]],
            cwd=ROOT,
            env={**surroundings(), **variables},
            stdout=output,
            stderr=output,
        )
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and web.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.2)
        assert answer(port, "/healthz") == (200, "ok\n")
        status, body = answer(port, "/readyz")
        checks = {name: component["status"] for name, component in json.loads(body)["checks"].items()}
        assert (status, checks) == (503, {"database": "up", "broker": "up", "worker": "down", "warehouse": "up"})
        for _ in range(9):
            answer(port, "/healthz?q=private")
        _, text = answer(port, "/metrics")
        counted = 'elevata_http_requests_total{method="GET",route="healthz",status="200"} 10.0'
        assert counted in text
    finally:
        web.terminate()
        web.wait(timeout=60)
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    (first, *_) = [line for line in lines if line["logger"] == "elevata.ops.access_log"]
    assert (first["path"], first["status"]) == ("/healthz", 200)
    assert len(first["request_id"]) == 32
    assert "private" not in log.read_text()


@pytest.mark.parametrize("role", ["worker", "beat"])
def test_documented_celery_options_exist(role: str) -> None:
    (typed,) = [line for line in LINES if f"elevata.celery {role}" in line]
    words = shlex.split(typed)
    program = Path(sys.executable).with_name("celery")
    done = subprocess.run([program, *words[1:4], "--help"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [word for word in words[4:] if word.startswith("--") and word not in done.stdout] == []


@pytest.mark.nightly
def test_documented_beat_command_sends_messages(
    shell: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Check that beat, started as on the page, writes the health check's file and sends a message."""
    in_files(monkeypatch)
    data = tmp_path / "data"
    (typed,) = [line for line in LINES if "elevata.celery beat" in line]
    words = shlex.split(typed.replace("$ELEVATA_DATA_DIR", str(data)))
    program = str(Path(sys.executable).with_name("celery"))
    with (tmp_path / "beat.log").open("w") as output:
        beat = subprocess.Popen(
            [program, *words[1:], "--pidfile", ""], cwd=ROOT, env=surroundings(), stdout=output, stderr=output
        )
    try:
        deadline = time.monotonic() + 180
        while not list(data.glob("broker/messages/*.msg")) and time.monotonic() < deadline and beat.poll() is None:
            time.sleep(0.5)
        assert list(data.glob("broker/messages/*.msg")), (tmp_path / "beat.log").read_text()
        assert list(data.glob("celerybeat-schedule*"))
    finally:
        beat.terminate()
        beat.wait(timeout=60)
