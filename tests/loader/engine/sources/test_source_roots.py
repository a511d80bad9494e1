"""Source roots: every listed file is checked, with links followed, before it is read."""

import gzip
import os
from pathlib import Path

import pytest

from loader.contract.manifest.sources import DeliveredColumn, SourceSpec
from loader.contract.refusals import Refusal
from loader.engine.session import source_roots
from loader.engine.sources import deliveries, discovery, opened
from loader.engine.sources.deliveries import read_delivery
from loader.engine.sources.delivery_reading import open_delivery
from loader.engine.sources.discovery import discover
from metadata.domain.sources.locations import Roots

pytestmark = pytest.mark.spark

SECRET = "id\ncanary-of-a-file\n"
COLUMNS = (DeliveredColumn("1", "id", "string"),)


@pytest.fixture
def landing(tmp_path, monkeypatch) -> Path:
    """Return the only root; beside it is an unreadable file, and inside it a data folder of the product."""
    folder = tmp_path / "landing"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "export.csv").write_text(SECRET)
    (folder / "orders.csv").write_text("id\n1\n")
    (tmp_path / "private.csv").write_text(SECRET)
    roots = Roots.of([str(folder)], [str(folder / "data")], folder="/")
    for module in (deliveries, discovery):
        monkeypatch.setattr(module, "source_roots", lambda spark: roots)
    return folder


def read(spark, location) -> list[str]:
    delivery = read_delivery(spark, SourceSpec("s", str(location), "csv", COLUMNS))
    rows = sorted(row.id for row in delivery.frame.collect())
    delivery.release()
    return rows


def refused(spark, location) -> Refusal:
    with pytest.raises(Refusal) as caught:
        read(spark, location)
    assert "canary" not in repr(caught.value)
    with pytest.raises(Refusal) as again:
        discover(spark, str(location), "csv")
    assert again.value.code == caught.value.code
    return caught.value


@pytest.mark.core
@pytest.mark.parametrize(
    "way",
    [
        r".\./private.csv",
        r"a/.\./.\./private.csv",
        r"\.\./private.csv",
        "foo{/.,zz/}./private.csv",
        "{.,a}./private.csv",
        "../private.csv",
        "%2e%2e/private.csv",
    ],
)
def test_location_that_hadoop_would_resolve_outside_of_the_roots_is_refused(spark, landing, way):
    """Check locations of metadata that was written before such locations were refused."""
    refusal = refused(spark, f"{landing}/{way}")
    assert (refusal.code, refusal.hint != "") == ("BAD_LOCATION", True)


@pytest.mark.core
@pytest.mark.parametrize("scheme", ["http", "jar", "har", "ftp", "webhdfs", "viewfs"])
def test_a_scheme_that_sources_may_not_have_is_refused(spark, landing, scheme):
    assert refused(spark, f"{scheme}://host/a.csv").code == "BAD_LOCATION"


def test_a_place_outside_of_the_roots_is_refused(spark, landing):
    for place in (landing.parent / "private.csv", landing.parent, f"{landing}/data", f"{landing}/data/export.csv"):
        assert refused(spark, place).code == "OUTSIDE_ROOTS"
    assert refused(spark, "s3a://bucket/in/a.csv").code == "OUTSIDE_ROOTS"


def test_a_folder_with_a_link_out_is_refused_naming_folder_and_link(spark, landing):
    folder = landing / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("id\n1\n")
    (folder / "b.csv").symlink_to(landing.parent / "private.csv")
    for location in (folder, folder / "*.csv", folder / "b.csv"):
        refusal = refused(spark, location)
        assert refusal.code == "OUTSIDE_ROOTS"
        assert str(location) in refusal.message
    assert refused(spark, folder).file == str(folder / "b.csv")


def test_a_folder_that_is_a_link_out_is_refused(spark, landing):
    (landing / "in").mkdir()
    (landing / "in" / "more").symlink_to(landing.parent, target_is_directory=True)
    (landing / "out").symlink_to(landing.parent, target_is_directory=True)
    for location in (landing / "in", landing / "out", landing / "out" / "*.csv", landing / "o*" / "private.csv"):
        assert refused(spark, location).code == "OUTSIDE_ROOTS"


def test_the_data_folder_inside_a_root_is_not_read(spark, landing):
    """Check that a folder above the data folder is refused, since the data folder contains no deliveries."""
    assert refused(spark, landing).code == "OUTSIDE_ROOTS"
    assert refused(spark, landing / "*" / "*.csv").file == str(landing / "data" / "export.csv")
    (landing / "link.csv").symlink_to(landing / "data" / "export.csv")
    assert refused(spark, landing / "link.csv").code == "OUTSIDE_ROOTS"


def test_links_below_the_roots_are_followed_and_each_file_is_read_once(spark, landing):
    folder, store = landing / "in", landing / "store"
    folder.mkdir()
    store.mkdir()
    (store / "a.csv").write_text("id\n1\n")
    (store / "blob").write_bytes(gzip.compress(b"id\n2\n"))
    (folder / "a.csv").symlink_to(store / "a.csv")
    (folder / "b.csv").symlink_to(store / "a.csv")
    (folder / "c.csv.gz").symlink_to(store / "blob")
    (folder / "_out.csv").symlink_to(landing.parent / "private.csv")
    assert read(spark, folder) == ["1", "2"]


def test_pipe_is_refused_as_unreadable(spark, landing):
    os.mkfifo(landing / "pipe.csv")
    assert refused(spark, landing / "pipe.csv").code == "UNREADABLE_FILE"


def test_a_link_that_is_changed_after_the_check_is_refused(spark, landing, monkeypatch):
    link = landing / "link.csv"
    link.symlink_to(landing / "orders.csv")
    _after_listing(monkeypatch, lambda: (link.unlink(), link.symlink_to(landing.parent / "private.csv")))
    with pytest.raises(Refusal) as caught:
        read(spark, link)
    assert caught.value.code == "OUTSIDE_ROOTS"


def test_folder_replaced_by_a_link_after_the_check_is_refused(spark, landing, monkeypatch):
    folder, other = landing / "in", landing.parent / "other"
    for place, content in ((folder, "id\n1\n"), (other, SECRET)):
        place.mkdir()
        (place / "a.csv").write_text(content)

    def change():
        folder.rename(landing / "before")
        folder.symlink_to(other, target_is_directory=True)

    _after_listing(monkeypatch, change)
    with pytest.raises(Refusal) as caught:
        read(spark, folder)
    assert caught.value.code == "OUTSIDE_ROOTS"


def _after_listing(monkeypatch, change) -> None:
    listed = opened.list_files

    def list_files(*args):
        files = listed(*args)
        change()
        return files

    monkeypatch.setattr(opened, "list_files", list_files)


def test_session_returns_the_source_roots_of_its_runner(spark):
    assert [str(place) for place in source_roots(spark).places] == ["/"]
    opened = open_delivery(spark, "s", __file__, "csv", {"delimiter": "\t"}, roots=source_roots(spark.newSession()))
    assert opened.files
