"""Tests that the test session uses the selected stores, and leaves a developer's files and servers alone."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from elevata.bootstrap.places import ROOT
from tests.services import session
from tests.services.process import ServerProblem, free_port

STORES = {
    "postgres_redis": ("postgresql", "redis"),
    "embedded": ("sqlite", "filesystem"),
    "none": ("sqlite", "filesystem"),
}


@pytest.mark.embedded
@pytest.mark.django_db
def test_session_uses_the_stores_of_its_mode():
    database, broker = STORES[session.mode()]
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)
    assert (connection.vendor, settings.CELERY_BROKER_URL.split(":")[0]) == (database, broker)


@pytest.mark.embedded
def test_a_message_goes_through_the_broker():
    from elevata.celery import app

    with app.connection_for_write() as broker:
        queue = broker.SimpleQueue(f"test-{os.getpid()}")
        queue.put({"run": 7})
        message = queue.get(timeout=10)
        message.ack()
        queue.close()
    assert message.payload == {"run": 7}


@pytest.mark.embedded
def test_the_data_folder_is_the_sessions_own():
    assert not settings.DATA_DIR.is_relative_to(ROOT)
    assert Path(settings.WAREHOUSE).is_relative_to(settings.DATA_DIR)


@pytest.mark.full
def test_session_ignores_variables_of_the_shell(tmp_path):
    (tmp_path / "test_inside.py").write_text(
        "import os\n"
        "def test_inside():\n"
        "    assert 'DATABASE_URL' not in os.environ\n"
        "    assert 'ELEVATA_WAREHOUSE' not in os.environ\n"
        "    assert 'PYTHONDONTWRITEBYTECODE' not in os.environ\n"
        "    assert os.environ['ELEVATA_DATA_DIR'] != '/somewhere'\n"
    )
    shell = {
        "DATABASE_URL": "postgres://nobody@127.0.0.1:1/nothing",
        "ELEVATA_WAREHOUSE": "/somewhere",
        "PYTHONDONTWRITEBYTECODE": "1",
        "ELEVATA_DATA_DIR": "/somewhere",
    }
    assert run_pytest(tmp_path, mode="none", **shell).returncode == 0


@pytest.mark.full
def test_the_number_of_examples_reaches_the_tests(tmp_path):
    (tmp_path / "test_inside.py").write_text(
        "import os\ndef test_inside():\n    assert os.environ['ELEVATA_SPARK_EXAMPLES'] == '8'\n"
    )
    assert run_pytest(tmp_path, mode="none", ELEVATA_SPARK_EXAMPLES="8").returncode == 0


@pytest.mark.services
@pytest.mark.full
def test_missing_server_fails_the_session_with_a_hint(tmp_path):
    done = run_pytest(tmp_path, mode="postgres_redis", PATH=str(tmp_path))
    assert done.returncode == 4
    # Debian's PostgreSQL is not on PATH anyway, so Redis is the missing program.
    assert "is not installed - make test installs what is missing" in done.stderr


def test_an_unknown_mode_is_refused(tmp_path):
    done = run_pytest(tmp_path, mode="sqlite")
    assert done.returncode == 4
    assert "must be one of postgres_redis, embedded, none, not sqlite" in done.stderr


@pytest.mark.services
@pytest.mark.full
def test_servers_end_with_a_session_that_dies(tmp_path):
    """Check that the servers of an inner session stop after it dies; it reports their addresses."""
    (tmp_path / "test_inside.py").write_text(
        "import os\n"
        "def test_inside():\n"
        "    urls = [os.environ[name] for name in ('DATABASE_URL', 'CELERY_BROKER_URL')]\n"
        "    open('urls', 'w').write(' '.join(urls))\n"
        "    open('folder', 'w').write(os.environ['ELEVATA_DATA_DIR'])\n"
        "    os._exit(9)\n"
    )
    assert run_pytest(tmp_path, mode="postgres_redis").returncode == 9
    urls = (tmp_path / "urls").read_text().split()
    ports = [int(url.rsplit(":", 1)[1].split("/")[0]) for url in urls]
    wait_until_closed(ports)
    shutil.rmtree(Path((tmp_path / "folder").read_text()).parent)


@pytest.mark.services
@pytest.mark.full
def test_a_failing_session_removes_its_folder(tmp_path):
    (tmp_path / "test_inside.py").write_text(
        "import os\n"
        "def test_inside():\n"
        "    open('folder', 'w').write(os.environ['ELEVATA_DATA_DIR'])\n"
        "    assert False\n"
    )
    assert run_pytest(tmp_path, mode="postgres_redis").returncode == 1
    assert not Path((tmp_path / "folder").read_text()).parent.exists()


def test_free_port_returns_an_unprivileged_port():
    assert 1024 < free_port() < 65536


def test_session_mode_refuses_an_unknown_value(monkeypatch):
    monkeypatch.setenv(session.CHOICE, "mysql")
    with pytest.raises(ServerProblem, match="not mysql"):
        session.mode()


def run_pytest(folder: Path, *, mode: str, **variables: str) -> subprocess.CompletedProcess:
    """Run a separate pytest session over the tests in ``folder``."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", ROOT / "pyproject.toml", folder],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), session.CHOICE: mode, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )


def wait_until_closed(ports: list[int]) -> None:
    for port in ports:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) != 0:
                    break
            time.sleep(0.1)
        else:
            pytest.fail(f"a server still answers on port {port}")
