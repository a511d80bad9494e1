"""Parts of the demo: releases, folder, users. The demo itself runs on the real engine elsewhere."""

import json
import tarfile
import zipfile
from datetime import UTC, datetime

import pytest
from celery.contrib.testing.worker import start_worker

from architecture.domain.artifacts import verify
from architecture.models import DryRun, ExecutionRecord
from architecture.selectors.inbox import tasks_of
from architecture.services.reports import operations_of
from elevata.accounts.actors import acting_as
from elevata.celery import app
from elevata.core import data_folder
from loader import tasks
from loader.contract.refusals import Refusal
from loader.management import demo_data, demo_folder, demo_work
from loader.management.commands import demo
from loader.management.demo_data import ReleaseProblem, sorted_releases
from loader.management.demo_work import DemoUsers
from loader.models import MaintenanceRecord
from loader.runner.folder_lock import FolderLock
from loader.runner.worker import Workplace
from metadata.domain.scope import DATASET, Scope
from metadata.services.source_contracts import take_columns


def test_releases_are_sorted_by_date_and_dated():
    releases = sorted_releases(["20230303", "2026.8.3", "20211030.1", "20201107", "20201107a0", "20230303"])
    assert [(release.name, release.at) for release in releases] == [
        ("20201107a0", datetime(2020, 11, 7, tzinfo=UTC)),
        ("20201107", datetime(2020, 11, 7, 1, tzinfo=UTC)),
        ("20211030.1", datetime(2021, 10, 30, tzinfo=UTC)),
        ("20230303", datetime(2023, 3, 3, tzinfo=UTC)),
        ("2026.8.3", datetime(2026, 8, 3, tzinfo=UTC)),
    ]


def test_releases_of_one_day_are_one_hour_apart():
    releases = sorted_releases(["20210608.3", "20210608", "20210608.1"])
    assert [(item.name, item.at.hour) for item in releases] == [("20210608", 0), ("20210608.1", 1), ("20210608.3", 2)]


@pytest.mark.parametrize("name", ["latest", "20201301", "2020", "20201205-1", "--help", ""])
def test_invalid_release_name_is_refused(name):
    with pytest.raises(ReleaseProblem, match="is not a release of airportsdata"):
        sorted_releases([name])


def test_folder_of_the_demo_is_the_one_that_was_prepared_or_the_default(monkeypatch, tmp_path):
    monkeypatch.delenv(demo_folder.PREPARED, raising=False)
    monkeypatch.setenv("ELEVATA_DATA_DIR", str(tmp_path))
    assert demo._default_folder() == data_folder.ROOT / "demo"
    monkeypatch.setattr(demo, "IS_INSTALLED", True)
    assert demo._default_folder() == tmp_path / "demo"
    monkeypatch.setenv(demo_folder.PREPARED, str(tmp_path / "other"))
    assert demo._default_folder() == tmp_path / "other"


def test_demo_without_duckdb_names_its_extra(monkeypatch, tmp_path):
    lines = []
    monkeypatch.setattr(demo.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(demo.Command, "say", lambda self, line: lines.append(line))
    demo.Command()._say_query(tmp_path)
    assert "pip install 'elevata[duckdb]'" in lines[0]


CSV = b"icao,name\nEDDF,Frankfurt\n"


def wheel(folder):
    path = folder / "airportsdata-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("airportsdata/airports.csv", CSV)
        packed.writestr("airportsdata/__init__.py", "")
    return path


def sdist(folder):
    (folder / "airports.csv").write_bytes(CSV)
    path = folder / "airportsdata-1.tar.gz"
    with tarfile.open(path, "w:gz") as packed:
        packed.add(folder / "airports.csv", "airportsdata-1/airportsdata/airports.csv")
    return path


@pytest.mark.parametrize("make", [wheel, sdist])
def test_airports_file_is_extracted_from_wheel_or_source_archive_and_cached(tmp_path, monkeypatch, make):
    source = tmp_path / "source"
    source.mkdir()
    archive = make(source)
    calls = []
    monkeypatch.setattr(demo_data, "_download", lambda *_: calls.append(1) or archive)
    (release,) = sorted_releases(["20201205"])
    for _ in range(2):
        assert demo_data.fetch(release, tmp_path / "cache").read_bytes() == CSV
    assert calls == [1]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["20201205.csv"]


def test_an_archive_without_the_file_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "airportsdata-1.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("setup.py", "")
    monkeypatch.setattr(demo_data, "_download", lambda *_: path)
    with pytest.raises(ReleaseProblem, match="holds no airports.csv"):
        demo_data.fetch(sorted_releases(["20201205"])[0], tmp_path / "cache")


def test_a_release_that_cannot_be_fetched_is_named_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    with pytest.raises(ReleaseProblem) as refused:
        demo_data.fetch(sorted_releases(["20201205"])[0], tmp_path)
    assert "airportsdata==20201205 cannot be fetched" in refused.value.one_line()
    assert "\n" not in refused.value.one_line()


def test_demo_folder_is_emptied_except_for_marker_and_lock(tmp_path):
    folder = tmp_path / "demo"
    demo_folder.prepare(folder)
    (folder / "warehouse").mkdir()
    (folder / "warehouse" / "x").touch()
    (folder / "control.sqlite3").touch()
    demo_folder.prepare(folder)
    assert {path.name for path in folder.iterdir()} == {demo_folder.MARKER, "runner.lock"}


def test_folder_without_the_demo_marker_is_refused_unchanged(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(Refusal) as refused:
        demo_folder.prepare(tmp_path)
    assert refused.value.code == "NOT_A_DEMO_FOLDER"
    assert (tmp_path / "thesis.tex").is_file()
    with pytest.raises(Refusal):
        demo_folder.prepare(tmp_path / "thesis.tex")


def test_demo_folder_in_use_by_a_worker_is_refused_unchanged(tmp_path):
    demo_folder.prepare(tmp_path)
    (tmp_path / "control.sqlite3").touch()
    lock = FolderLock(tmp_path)
    lock.acquire("worker 7")
    with pytest.raises(Refusal, match="in use by worker 7"):
        demo_folder.prepare(tmp_path)
    lock.release()
    assert (tmp_path / "control.sqlite3").is_file()


@pytest.fixture
def worker(make_runner, monkeypatch):
    """Yield an in-process worker with a scripted runner."""
    place = Workplace(make_runner=make_runner)
    monkeypatch.setattr(tasks, "_workplace", place)
    with start_worker(app, pool="threads", concurrency=2, perform_ping_check=False, shutdown_timeout=30):
        place.open()
        yield
        place.close()


@pytest.mark.embedded
@pytest.mark.django_db(transaction=True)
def test_demo_takes_a_new_column_from_editor_through_approval_to_record(airports, worker, tmp_path):
    people = DemoUsers.made()
    assert not demo_work.has_tables()
    demo._load(*sorted_releases(["20220406"]), people)
    assert demo_work.has_tables()
    with acting_as(people.editor.user):
        take_columns(source_dataset=airports["airport"], proposals=[{"name": "lid", "type": "string"}])
    scope = Scope(DATASET, "rawcore.rc_air_airport")
    record = demo_work.carry_out(scope=scope, people=people, folder=tmp_path)
    document = record.document
    assert [approval["person"] for approval in document["approvals"]] == [people.approver.name]
    assert (document["requested_by"], document["outcome"]) == (people.operator.name, "succeeded")
    assert {(operation["op"], operation["column"]) for operation in document["operations"]} == {("add_column", "lid")}
    (file,) = (tmp_path / demo_work.RECORDS).iterdir()
    assert verify(json.loads(file.read_text())) == ()
    summary = demo_work.change_summary(["lid"], record)
    assert f"lid: described by {people.editor.name}, approved by {people.approver.name}" in summary
    assert demo_work.carry_out(scope=scope, people=people, folder=tmp_path) is None
    assert ExecutionRecord.objects.filter(execution__report__isnull=False).count() == 1


@pytest.fixture
def pending_work(worker, script, tmp_path, monkeypatch):
    """Return the demo's users with their pending work; the other team's column is observed as Delta would show it."""

    def job(_folder):
        instructions = json.loads(script.path.read_text())
        table = instructions["observed"][str(demo_work._dataset(demo_work.SITE).key)]
        table["columns"].append({"name": "remark", "type": "string", "nullable": True, "key": None})
        script.tell(**instructions)

    monkeypatch.setattr(demo_work, "_run_other_jobs", job)
    people = demo._set_up(tmp_path)
    demo._load(*sorted_releases(["20220406"]), people)
    return people, demo_work.leave_work(people=people, folder=tmp_path)


@pytest.mark.embedded
@pytest.mark.django_db(transaction=True)
def test_demo_prepares_pending_work_for_its_users_and_can_still_load(pending_work):
    people, work = pending_work
    assert [(operation.op, operation.column, operation.decision) for operation in operations_of(work.waiting)] == [
        ("rename_column", "opened_on", "allowed"),
        ("add_column", "distance_km", "needs_approval"),
    ]
    assert work.waiting.authors == work.blocked.authors == [people.editor.name]
    dry_run = DryRun.objects.get(preview__report=work.waiting)
    assert dry_run.status == "succeeded"
    (blocked,) = operations_of(work.blocked)
    assert (blocked.op, blocked.dataset, blocked.decision) == ("retype_column", demo_work.BOARD, "blocked")
    assert [difference.describe() for difference in work.drifted.differences] == [
        "serving.airports.remark: column unexpected, nothing → string"
    ]
    assert (work.schedule.active, work.schedule.next_at) == (False, None)
    assert MaintenanceRecord.objects.get().run == work.prune
    assert {actor.name: tasks_of(actor.user).count for actor in people} == {"demo": 1, "edda": 1, "aron": 1, "otto": 0}
    tasks_by_person = dict(demo_work.prepared_tasks(work, people))
    assert str(work.waiting.report_id)[:8] in tasks_by_person[people.approver.name]
    assert str(work.blocked.report_id)[:8] in tasks_by_person[people.editor.name]
    assert tasks_by_person.keys() == {person.name for person in people}
    row = demo._load(*sorted_releases(["20230303"]), people)
    assert row["release"] == "20230303"


@pytest.mark.django_db
def test_each_demo_user_has_a_role_and_signs_in(client):
    for person in DemoUsers.made():
        client.post("/sign-out/")
        given = {"username": person.name, "password": person.password}
        assert client.post("/sign-in/", given).status_code == 302
        assert [group.name for group in person.user.groups.all()] == [person.role.value]
