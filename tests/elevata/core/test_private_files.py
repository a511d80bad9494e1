"""Tests that every process makes files in the data folder readable by the product's user only."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from elevata.core.data_folder import make_private

ROOT = Path(__file__).parents[3]
# Writes all files of a data folder except the warehouse (see tests/loader/engine/test_substitution.py).
WRITING = """

from pathlib import Path
import django
django.setup()
from django.conf import settings
from django.core.management import call_command
from elevata.celery import app
from loader.contract.protocol import Said
from loader.runner.folder_lock import FolderLock
from loader.runner.runner_log import RunnerLog
from metadata.models import System

folder = Path(settings.DATA_DIR)
call_command("migrate", verbosity=0)
System.objects.create(short_name="air", name="Air")
call_command("export_metadata", verbosity=0)
call_command("backup", str(folder / "backups" / "copy"), verbosity=0)
app.send_task("loader.tasks.sweep")
FolderLock(folder).acquire("a test")
log = RunnerLog(folder / "logs" / "runner.log")
log.write(Said("started"), {})
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def open_to_others(folder: Path) -> dict[str, str]:
    return {str(path): oct(mode(path)) for path in (folder, *folder.rglob("*")) if mode(path) & 0o077}


def run(code: str, folder: Path) -> str:
    inherited = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "CELERY_BROKER_URL")}
    variables = {"DJANGO_SETTINGS_MODULE": "elevata.settings", "ELEVATA_DATA_DIR": str(folder)}
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=inherited | variables, umask=0o022, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installation") / "data"
    run(WRITING, folder)
    return folder


@pytest.mark.parametrize(
    "name", ["control.sqlite3", "secret_key", "audit_key", "broker/messages/*", "metadata/*", "backups/copy*"]
)
def test_processes_write_their_files_to_the_data_folder(written: Path, name: str):
    assert list(written.glob(name))


def test_no_file_of_the_data_folder_is_open_to_others(written: Path):
    assert open_to_others(written) == {}


def test_start_restricts_the_modes_of_a_data_folder_and_logs_them(tmp_path: Path):
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    (folder / "control.sqlite3").touch()
    (folder / "control.sqlite3").chmod(0o644)
    output = run("import django; django.setup()", folder)
    assert open_to_others(folder) == {}
    assert f"{folder} had mode 0755; it has 0700 now" in output
    assert "control.sqlite3 had mode 0644" in output


def test_a_folder_that_all_users_share_is_left_alone(tmp_path: Path):
    tmp_path.chmod(0o1777)
    assert "shared by all users" in make_private(tmp_path)[0]
    assert mode(tmp_path) == 0o1777


def test_make_private_reports_a_file_whose_mode_it_cannot_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "control.sqlite3").touch(0o644)
    (tmp_path / "control.sqlite3").chmod(0o644)

    def refuse(self: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    lines = make_private(tmp_path)
    assert any(
        "control.sqlite3 has mode 0644 and may be read by others: Operation not permitted" in line for line in lines
    )


def test_make_private_does_not_follow_symbolic_links(tmp_path: Path):
    folder, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.touch()
    elsewhere.chmod(0o644)
    (folder / "link").symlink_to(elsewhere)
    make_private(folder)
    assert mode(elsewhere) == 0o644


@pytest.mark.parametrize(
    "start", ["import elevata.wsgi", "import elevata.celery", "exec(open('gunicorn.conf.py').read())"]
)
def test_every_process_makes_files_for_its_user_alone(tmp_path: Path, start: str):
    output = run(f"{start}\nimport os\nprint('umask', oct(os.umask(0)))", tmp_path / "data")
    assert "umask 0o77" in output
