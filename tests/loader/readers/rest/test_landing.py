"""Landing of pages: complete or absent, once per run, removed after some runs."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from elevata.bootstrap.places import ROOT
from loader.contract.refusals import Refusal
from loader.readers.rest.landing import MARKER, Landing, land
from tests.loader.readers.rest import api_server
from tests.loader.readers.rest.api_server import HERE, RECORDS, Answer, ApiServer, Request

PAGED = {"paging": "page", "path": "items"}


def land_pages(api: ApiServer, place: Path, run_id: str = "r1", *, since: str | None = None, **options) -> Landing:
    source = api.source(**PAGED | options)
    return land(source, place, dataset="d", run_id=run_id, runs_kept=2, hosts=HERE, since=since, pause=lambda _: None)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_pages_land_as_delivered_in_a_folder_of_the_run(api: ApiServer, tmp_path):
    api.routes["/items"] = api_server.by_number
    landing = land_pages(api, tmp_path)
    assert (landing.folder, landing.pages, landing.is_repeated) == (tmp_path / "d" / "r1", 4, False)
    assert names(landing.folder) == [MARKER, *(f"page-0000{number}.json" for number in range(1, 5))]
    first = (landing.folder / "page-00001.json").read_bytes()
    assert first == json.dumps({"items": RECORDS[:3], "pages": 3}).encode()
    assert oct(landing.folder.stat().st_mode & 0o777) == "0o700"


def test_repeated_run_reuses_landed_pages_without_requests(api: ApiServer, tmp_path):
    api.routes["/items"] = api_server.by_number
    first = land_pages(api, tmp_path)
    count = len(api.requests)
    again = land_pages(api, tmp_path, timezone="Europe/Berlin")
    assert (again.folder, again.pages, again.is_repeated) == (first.folder, first.pages, True)
    assert len(api.requests) == count


@pytest.mark.parametrize("changed", [{"parameters": "status=open"}, {"since": "2024-01-01"}])
def test_another_request_under_the_same_run_lands_again(api: ApiServer, tmp_path, changed):
    api.routes["/items"] = api_server.by_number
    land_pages(api, tmp_path, incremental_parameter="since")
    again = land_pages(api, tmp_path, **{"incremental_parameter": "since"} | changed)
    assert (again.is_repeated, len(api.requests)) == (False, 8)


def test_failed_landing_leaves_no_pages_and_can_be_repeated(api: ApiServer, tmp_path):
    api.routes["/items"] = lambda request: (
        Answer(b"<html>") if request.query["page"] == "3" else api_server.by_number(request)
    )
    with pytest.raises(Refusal, match="page 3"):
        land_pages(api, tmp_path)
    assert [path for path in (tmp_path / "d").iterdir() if not path.name.startswith(".")] == []
    api.routes["/items"] = api_server.by_number
    assert land_pages(api, tmp_path).pages == 4
    assert names(tmp_path / "d") == ["r1"]


_LAND = """
import sys
from pathlib import Path
from loader.contract.manifest.sources import ApiSpec, SourceSpec
from loader.readers.rest.landing import land
from metadata.domain.sources.rest_addresses import parse_api
url, place = sys.argv[1:]
options = {"paging": "page", "path": "items"}
source = SourceSpec("shop.items", "items", "rest", (), options, api=ApiSpec(parse_api(url)))
land(source, Path(place), dataset="d", run_id="r1", runs_kept=2, hosts=("127.0.0.1",))
"""


def test_pages_of_a_killed_process_are_not_read_and_land_again(api: ApiServer, tmp_path):
    third, go_on = threading.Event(), threading.Event()

    def stuck(request: Request) -> Answer:
        if request.query["page"] == "3" and not go_on.is_set():
            third.set()
            go_on.wait(30)
        return api_server.by_number(request)

    api.routes["/items"] = stuck
    environment = os.environ | {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path / "home")}
    place, cwd = tmp_path / "landed", tmp_path / "cwd"
    cwd.mkdir()
    process = subprocess.Popen([sys.executable, "-c", _LAND, api.url, str(place)], cwd=cwd, env=environment)
    assert third.wait(30)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    go_on.set()
    assert names(place / "d") == [".r1"]
    landing = land_pages(api, place)
    assert (landing.pages, landing.is_repeated, names(place / "d")) == (4, False, ["r1"])


def test_landing_writes_no_dlt_files_and_reads_no_dlt_configuration(api: ApiServer, tmp_path):
    api.routes["/items"] = api_server.by_number
    (tmp_path / ".dlt").mkdir()
    (tmp_path / ".dlt" / "config.toml").write_text("not = [toml")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", _LAND, api.url, str(tmp_path / "landed")]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=60)
    assert (names(tmp_path), names(tmp_path / ".dlt")) == ([".dlt", "landed"], ["config.toml"])


def test_landing_deletes_folders_of_older_runs(api: ApiServer, tmp_path):
    api.routes["/items"] = api_server.by_number
    for number in range(1, 5):
        folder = land_pages(api, tmp_path, f"r{number}").folder
        os.utime(folder, (number, number))
    assert names(tmp_path / "d") == ["r3", "r4"]


def test_an_endpoint_without_content_lands_as_a_document_without_rows(api: ApiServer, tmp_path):
    api.serve("/items", Answer(status=204))
    landing = land_pages(api, tmp_path)
    assert (landing.pages, landing.is_empty) == (0, True)
    assert (landing.folder / "page-00001.json").read_bytes() == b"[]"
    assert land_pages(api, tmp_path).is_empty


def test_progress_callback_can_cancel_the_landing_at_a_page(api: ApiServer, tmp_path):
    api.routes["/items"] = api_server.by_number

    class Canceled(Exception):
        pass

    def progress(page: int) -> None:
        if page == 3:
            raise Canceled

    with pytest.raises(Canceled):
        land(api.source(**PAGED), tmp_path, dataset="d", run_id="r1", runs_kept=2, hosts=HERE, progress=progress)
    assert len(api.requests) == 2
