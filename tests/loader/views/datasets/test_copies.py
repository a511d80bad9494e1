"""Page of a dataset's copies, their forms, and the copies in the run and the health."""

import pytest
from django.test import Client
from django.utils import timezone

from architecture.services.environments import current_environment
from elevata.core.errors import MetadataError
from loader.contract.run_states import COPY
from loader.models import CopyState, LoadRun
from loader.selectors.copies import failed_copies
from metadata.models import DatasetCopy, System, TargetDataset
from metadata.services.copies import create_copy
from metadata.services.sources import create_source_dataset, create_system
from tests.elevata.web.forms import typed, words
from tests.elevata.web.pages import read

pytestmark = pytest.mark.django_db


@pytest.fixture
def bi(editor: Client) -> System:
    return create_system(name="Dashboards", short_name="bi", kind="duckdb", location="{{ data_dir }}/copies/bi.duckdb")


def page(airport: TargetDataset) -> str:
    return f"/datasets/{airport.key}/copies/"


def create_state(copy: DatasetCopy, **facts: object) -> CopyState:
    return CopyState.objects.create(
        environment=current_environment(),
        copy_key=copy.key,
        dataset_key=copy.dataset.key,
        system=copy.system.short_name,
        tried_at=timezone.now(),
        **facts,
    )


def test_page_shows_each_copy_with_its_last_result(editor: Client, airport: TargetDataset, bi: System):
    assert "No copies yet." in words(read(editor, page(airport)))
    copy = create_copy(dataset=airport, to=bi, table="mart.airport")
    assert "Not copied yet" in words(read(editor, page(airport)))
    error = {"code": "COPY_FOREIGN", "message": "it is another table", "hint": "Give it another name."}
    create_state(copy, status="failed", version=7, row_count=1234, error=error, findings=["COPY_SENSITIVE: name"])
    text = words(read(editor, page(airport)))
    for part in ("Dashboards mart.airport", "Failed", "COPY_FOREIGN: it is another table", "COPY_SENSITIVE", "1,234"):
        assert part in text
    (concern,) = failed_copies()
    assert concern.link.startswith(page(airport))


def test_copy_is_created_changed_and_deleted_by_forms(editor: Client, airport: TargetDataset, bi: System):
    place = f"{page(airport)}new/"
    answer = editor.post(place, typed(read(editor, place), having="to", to="bi", table="mart.airport", mode="changes"))
    copy = DatasetCopy.objects.get()
    assert answer.url == f"{page(airport)}#copy-{copy.key}"
    assert (copy.table_name, copy.mode, copy.sensitive) == ("mart.airport", "changes", "leave_out")
    answer = editor.post(place, typed(read(editor, place), having="to", to="bi", table="nothing"))
    assert "is no name of a table" in answer.content.decode()
    place = f"/copies/{copy.key}/edit/"
    editor.post(place, typed(read(editor, place), table=""))
    copy.refresh_from_db()
    assert copy.table_name == str(airport)
    place = f"/copies/{copy.key}/delete/"
    editor.post(place, typed(read(editor, place)))
    assert not DatasetCopy.objects.exists()


def test_button_requests_a_copy_run(operator: Client, airport: TargetDataset, editor: Client, bi: System):
    create_copy(dataset=airport, to=bi)
    answer = operator.post(f"{page(airport)}run/", {"check": "1"})
    run = LoadRun.objects.get(kind=COPY)
    assert (answer.url, run.details["asked"]["check"]) == (f"/load-runs/{run.run_id}/", True)
    copies = [{"to": "bi", "table": "mart.airport", "status": "unchanged", "mode": "", "version": 3, "row_count": 5}]
    LoadRun.objects.filter(pk=run.pk).update(details=run.details | {"copies": copies})
    assert "mart.airport unchanged" in words(read(operator, answer.url))


def test_reader_sees_copies_without_buttons(viewer: Client, airport: TargetDataset, editor: Client, bi: System):
    create_copy(dataset=airport, to=bi)
    text = read(viewer, page(airport))
    assert "Add copy" not in text
    assert "Copy now" not in text


def test_copies_by_rest_have_their_state(editor: Client, airport: TargetDataset, bi: System):
    body = {"dataset": str(airport.key), "to": "bi", "mode": "changes"}
    answer = editor.post("/api/v1/copies/", body, content_type="application/json")
    assert answer.status_code == 201
    create_state(DatasetCopy.objects.get(), status="copied", version=7, row_count=3, checksum="1")
    (listed,) = editor.get("/api/v1/copies/?to=bi").json()["results"]
    assert (listed["to"], listed["mode"], listed["state"]["version"]) == ("bi", "changes", 7)


def test_page_of_a_system_for_copies_lists_them_without_sources(editor: Client, airport: TargetDataset, bi: System):
    assert "No copies yet" in words(read(editor, "/systems/bi/"))
    create_state(create_copy(dataset=airport, to=bi, table="mart.airport"), status="failed")
    text = words(read(editor, "/systems/bi/"))
    assert f"{airport} mart.airport Failed" in text
    assert "Source datasets" not in text
    assert "Add source" not in text


@pytest.mark.parametrize("part", ["discover/", "upload/", "import/?location=t"])
def test_system_for_copies_has_no_pages_of_sources(editor: Client, bi: System, part: str):
    assert editor.get(f"/systems/bi/{part}").status_code == 404


def test_source_in_a_system_for_copies_is_refused(bi: System):
    with pytest.raises(MetadataError, match="systems of kind duckdb take copies of datasets and have no sources"):
        create_source_dataset(system=bi, name="order", location="order.csv")


def test_copies_are_downstream_in_the_lineage_with_their_state(editor: Client, airport: TargetDataset, bi: System):
    copy = create_copy(dataset=airport, to=bi, table="mart.airport")
    create_state(copy, status="failed")
    raw = TargetDataset.objects.get(name="raw_air_airport")
    for key in (airport.key, raw.key):
        answer = editor.get(f"/datasets/{key}/lineage/")
        assert "mart.airport Copy in bi Failed" in words(answer.content.decode())
        (node,) = (node for node in answer.context["graph"].nodes if node.layer == "copy")
        assert (node.title, node.sub, node.state, node.state_label) == ("mart.airport", "in bi", "failed", "failed")
        assert node.url == f"{page(airport)}#copy-{copy.key}"
    history = editor.get(f"/datasets/{airport.history.key}/lineage/")
    assert "mart.airport" not in words(history.content.decode())


def test_copies_are_affected_by_changes_upstream(editor: Client, airport: TargetDataset, bi: System):
    create_copy(dataset=airport, to=bi, table="mart.airport")
    raw = TargetDataset.objects.get(name="raw_air_airport")
    rows = editor.get(f"/api/v1/affected/?dataset={raw.key}").json()
    assert [(row["name"], row["datasets"]) for row in rows if row["kind"] == "copy"] == [
        ("mart.airport in bi", [str(airport)])
    ]
    System.objects.filter(pk=bi.pk).update(active=False)
    assert "copy" not in {row["kind"] for row in editor.get(f"/api/v1/affected/?dataset={raw.key}").json()}


def test_copy_run_is_requested_by_rest_with_the_permission_to_start_loads(
    operator: Client, viewer: Client, airport: TargetDataset, editor: Client, bi: System
):
    body = {"dataset": str(airport.key), "check": True, "changelog_message": "for the board"}
    without = operator.post("/api/v1/copy-runs/", body, content_type="application/json")
    assert (without.status_code, without.json()["code"]) == (422, "NO_COPIES")
    create_copy(dataset=airport, to=bi)
    assert viewer.post("/api/v1/copy-runs/", body, content_type="application/json").status_code == 403
    assert not LoadRun.objects.exists()
    answer = operator.post("/api/v1/copy-runs/", body, content_type="application/json")
    run = LoadRun.objects.get(kind=COPY)
    assert (answer.status_code, answer.headers["Location"]) == (
        202,
        f"http://testserver/api/v1/load-runs/{run.run_id}/",
    )
    assert (run.details["asked"]["check"], run.reason) == (True, "for the board")


def test_health_reports_failed_copies_beyond_its_list(
    editor: Client, airport: TargetDataset, bi: System, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("architecture.selectors.health.MOST_CONCERNS", 1)
    for table in ("mart.a", "mart.b"):
        error = {"code": "COPY_FOREIGN", "message": "it is another table", "hint": ""}
        create_state(create_copy(dataset=airport, to=bi, table=table), status="failed", error=error)
    (concern,) = failed_copies()
    assert "There are more such findings than the 1 listed." in concern.text
