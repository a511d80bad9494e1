"""Tests that the control database of every release is migrated to the newest version and works."""

import hashlib
import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.upgrade.release_database import FOLDER, PASSWORD, ROOT, USER, environment

RELEASES = sorted(path.stem for path in FOLDER.glob("*.sql"))

# Migrates the database, then uses it as a user and an auditor do.
USE = f"""
import json
import django
django.setup()
from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.test import Client
settings.ALLOWED_HOSTS = ["testserver"]
call_command("migrate", interactive=False, verbosity=0)
from elevata.audit.services.verification import verify_chain
problem = verify_chain(recorded=False).problem
client = Client()
login = client.get("/sign-in/")
answers = {{"sign in": login.status_code}}
client.post("/sign-in/", {{"username": {USER!r}, "password": {PASSWORD!r}}})
for path in ("/", "/datasets/", "/reports/", "/load-runs/", "/schedules/", "/api/v1/datasets/"):
    answers[path] = client.get(path).status_code
page = client.get("/datasets/").content.decode()
rows = {{model._meta.label_lower: model.objects.count() for model in apps.get_models() if model._meta.managed}}
print(json.dumps({{"problem": problem and problem.message, "answers": answers, "rows": rows,
    "listed": "rc_crm_customer" in page}}))
"""


@pytest.fixture(scope="module", params=RELEASES)
def upgraded(request, tmp_path_factory) -> dict:
    """Return the state of a release's database after the upgrade."""
    folder = tmp_path_factory.mktemp("upgrade") / "data"
    folder.mkdir()
    connection = sqlite3.connect(folder / "control.sqlite3")
    connection.executescript((FOLDER / f"{request.param}.sql").read_text(encoding="utf-8"))
    connection.close()
    done = subprocess.run(
        [sys.executable, "-c", USE], cwd=ROOT, env=environment(folder), capture_output=True, text=True
    )
    shutil.rmtree(folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_database_of_the_first_release_exists():
    assert "0.9.0" in RELEASES


def test_upgraded_database_answers_its_pages(upgraded):
    assert {name: status for name, status in upgraded["answers"].items() if status != 200} == {}
    assert upgraded["listed"]


def test_upgraded_change_log_verifies(upgraded):
    assert upgraded["problem"] is None


def test_upgraded_database_keeps_rows_of_every_app(upgraded):
    apps = {label.split(".")[0] for label, count in upgraded["rows"].items() if count}
    expected = {"accounts", "audit", "notifications", "comments", "lists", "jobs", "metadata", "architecture", "loader"}
    assert expected - apps == set()


@pytest.mark.parametrize("release", RELEASES)
def test_released_migration_never_changes(release: str):
    digests = json.loads((FOLDER / f"{release}.json").read_text(encoding="utf-8"))
    changed = [
        path
        for path, digest in digests.items()
        if not (ROOT / path).is_file() or hashlib.sha256(Path(ROOT, path).read_bytes()).hexdigest() != digest
    ]
    assert changed == [], f"migrations of {release} were rewritten: add a migration instead"
