"""Tests of source locations: each text names exactly one place."""

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.domain.sources.locations import (
    ANYWHERE,
    BadLocation,
    Location,
    OutsideRoots,
    Roots,
    check_location,
    joined,
    parse_location,
    split_roots,
)

SIGNS = st.text(st.sampled_from(list("ab/.\\{}%2eE5cC*?[]:~ \u2024\uff0f\n\0")), max_size=30)


def place(text: str) -> str:
    return str(parse_location(text, folder="/project"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/", "/"),
        ("/srv/in/orders.csv", "/srv/in/orders.csv"),
        ("/srv/in/", "/srv/in"),
        (" orders.csv ", "/project/orders.csv"),
        ("2024/*/orders-?.csv", "/project/2024/*/orders-?.csv"),
        ("/in/part-[0-9].csv", "/in/part-[0-9].csv"),
        ("/in/12:00.csv", "/in/12:00.csv"),
        ("/in/100%.csv", "/in/100%.csv"),
        ("/in/größe \u6771.csv", "/in/größe \u6771.csv"),
        ("file:/srv/in", "/srv/in"),
        ("FILE:///srv/a%20b/c.csv", "/srv/a b/c.csv"),
        ("s3a://bucket/in/a.csv", "s3a://bucket/in/a.csv"),
        ("S3A://bucket", "s3a://bucket/"),
        ("abfss://in@account.dfs.core.windows.net/a", "abfss://in@account.dfs.core.windows.net/a"),
        ("hdfs://namenode:8020/in", "hdfs://namenode:8020/in"),
    ],
)
def test_a_location_is_normalised(text: str, expected: str) -> None:
    assert place(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "..",
        "a/../b",
        "./a",
        "a//b",
        "//etc",
        r".\./.\./etc",
        "foo{/.,zz/}./x",
        "[a",
        "a]",
        "[]",
        "[!a]",
        "[a/b]",
        "file:etc",
        "file://host/etc",
        "file://localhost/etc",
        "file:////etc",
        "file:///a/%2e%2e/b",
        "file:///a%2fb",
        "file:///%252e%252e/b",
        "file:///%ff",
        "s3a:bucket/a",
        "s3a:///a",
        "s3a://key:secret@bucket/a",
        "s3a://bucket/a/../b",
        "s3a://bucket//a",
        "s3a://bucket/%2e%2e/a",
        "http://169.254.169.254/",
        "jar:file:/a.jar!/b",
        "har:/a",
        "a:b",
        "x" * 1001,
    ],
)
def test_ambiguous_location_is_refused(text: str) -> None:
    with pytest.raises(BadLocation):
        place(text)


@given(SIGNS)
def test_accepted_location_is_normalised_and_stable(text: str) -> None:
    try:
        location = parse_location(text, folder="/project")
    except BadLocation:
        return
    assert parse_location(str(location), folder="/elsewhere") == location
    assert os.path.normpath(location.path) == location.path
    assert not set("\\{}\n\0") & set(location.path)


AT = datetime(2026, 1, 3, 0, 30, tzinfo=timezone(timedelta(hours=1)))


@pytest.mark.parametrize(
    ("own", "base", "expected"),
    [
        ("a.csv", "/in", "/in/a.csv"),
        ("a.csv", "/in/", "/in/a.csv"),
        ("/a.csv", "/in", "/a.csv"),
        ("s3a://b/a.csv", "/in", "s3a://b/a.csv"),
        ("a.csv", "{{ data_dir }}/in", "/data/in/a.csv"),
        ("{{data_dir}}/a.csv", "/in", "/data/a.csv"),
        ("a.csv", "", "a.csv"),
    ],
)
def test_dataset_location_is_relative_to_its_system(own: str, base: str, expected: str) -> None:
    assert joined(own, base, data_dir="/data", at=AT) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("in/{date:%Y/%m/%d}/orders_*.csv", "/b/in/2026/01/02/orders_*.csv"),
        ("orders_{run_date}.csv", "/b/orders_2026-01-02.csv"),
        ("{date:%Y%m%d_%H%M}/{date:%G-W%V}_{date:%j}.csv", "/b/20260102_2330/2026-W01_002.csv"),
    ],
)
def test_date_placeholders_use_the_run_date_in_utc(text: str, expected: str) -> None:
    check_location(text)
    assert joined(text, "/b", data_dir="/data", at=AT) == expected


@pytest.mark.parametrize(
    "text", ["{date:%B}.csv", "{date:%}.csv", "{date:../%Y}", "{day}.csv", "{date:%Y", "{date:}/a"]
)
def test_invalid_placeholders_in_a_location_are_refused(text: str) -> None:
    with pytest.raises(BadLocation):
        check_location(text)


def test_roots_are_separated_by_colons_outside_of_addresses() -> None:
    text = "/srv/in:s3a://bucket/in: hdfs://namenode:8020/in:/mnt/x::"
    assert split_roots(text) == ["/srv/in", "s3a://bucket/in", "hdfs://namenode:8020/in", "/mnt/x"]


def test_root_with_a_pattern_is_refused() -> None:
    with pytest.raises(BadLocation):
        Roots.of(["/srv/*"], folder="/")


# --- roots -----------------------------------------------------------------------------------------


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.csv").touch()
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "b.csv").touch()
    return tmp_path / "landing"


def roots(*places: Path | str, closed: tuple[Path, ...] = ()) -> Roots:
    return Roots.of(map(str, places), map(str, closed), folder="/")


def local(path: Path) -> Location:
    return parse_location(str(path), folder="/")


def test_path_below_a_root_is_accepted_even_if_it_does_not_exist(landing: Path) -> None:
    for name in ("a.csv", "later/b.csv", "*.csv"):
        assert str(roots(landing).check(local(landing / name))) == str(landing / name)


def test_path_outside_of_a_root_is_refused(landing: Path) -> None:
    for path in (landing.parent, landing.parent / "private", Path(f"{landing}-beside"), Path("/")):
        with pytest.raises(OutsideRoots):
            roots(landing).check(local(path))


def test_links_are_resolved_before_a_path_is_checked(landing: Path) -> None:
    (landing / "out").symlink_to(landing.parent / "private")
    (landing / "out.csv").symlink_to(landing.parent / "private" / "b.csv")
    (landing / "in.csv").symlink_to(landing / "a.csv")
    for name in ("out", "out/b.csv", "out/*.csv", "out.csv"):
        with pytest.raises(OutsideRoots):
            roots(landing).check(local(landing / name))
    with pytest.raises(OutsideRoots):
        roots(landing).check_file(str(landing / "out.csv"))
    assert roots(landing).check_file(str(landing / "in.csv")) == str(landing / "a.csv")


def test_root_that_is_a_link_opens_its_target(landing: Path) -> None:
    link = landing.parent / "link"
    link.symlink_to(landing)
    assert roots(link).check_file(str(landing / "a.csv"))
    assert roots(link).check_file(str(link / "a.csv")) == str(landing / "a.csv")


def test_linked_file_keeps_the_path_with_its_compression_ending(landing: Path) -> None:
    (landing / "blob").touch()
    (landing / "b.csv.gz").symlink_to(landing / "blob")
    assert roots(landing).check_file(str(landing / "b.csv.gz")) == str(landing / "b.csv.gz")


def test_a_closed_folder_is_opened_only_by_a_root_inside_of_it(landing: Path) -> None:
    data = landing.parent
    for opened in (roots(data, closed=(data,)), roots("/", closed=(data,))):
        for path in (data / "private" / "b.csv", landing / "a.csv"):
            with pytest.raises(OutsideRoots):
                opened.check_file(str(path))
    inside = roots("/", landing, closed=(data,))
    assert inside.check_file(str(landing / "a.csv"))
    with pytest.raises(OutsideRoots):
        inside.check_file(str(data / "private" / "b.csv"))


def test_closed_folder_inside_of_an_open_one_is_refused(landing: Path) -> None:
    data = landing.parent
    allowed = roots(data, landing, closed=(data, landing / "warehouse"))
    (landing / "warehouse").mkdir()
    (landing / "warehouse" / "x.parquet").touch()
    with pytest.raises(OutsideRoots):
        allowed.check_file(str(landing / "warehouse" / "x.parquet"))


@pytest.mark.parametrize("uri", ["s3a://bucket/in/a.csv", "S3A://bucket/in/a/b.csv", "s3a://bucket/in/{odd}\\.csv"])
def test_object_key_below_a_root_is_accepted(uri: str) -> None:
    assert roots("s3a://bucket/in/").check_key(uri) == uri


@pytest.mark.parametrize(
    "uri",
    [
        "s3a://bucket/inside/a.csv",
        "s3a://bucket/other",
        "s3a://other/in/a.csv",
        "s3a://bucket.evil/in/a.csv",
        "s3://bucket/in/a.csv",
        "gs://bucket/in/a.csv",
        "s3a://bucket/in/../x.csv",
        "s3a://bucket/in//x.csv",
        "/bucket/in/a.csv",
        "in/a.csv",
    ],
)
def test_object_key_outside_of_a_root_is_refused(uri: str) -> None:
    with pytest.raises(OutsideRoots):
        roots("s3a://bucket/in/").check_key(uri)


def test_requested_place_is_accepted_unless_it_is_a_link(landing: Path) -> None:
    file = landing.parent / "private" / "b.csv"
    assert roots(landing).with_asked(local(file)).check(local(file))
    file.rename(landing.parent / "private" / "c.csv")
    file.symlink_to("/etc/passwd")
    with pytest.raises(OutsideRoots):
        roots(landing).with_asked(local(file)).check(local(file))


def test_empty_roots_refuse_every_path(landing: Path) -> None:
    with pytest.raises(OutsideRoots):
        roots().check(local(landing))
    assert ANYWHERE.anywhere
    assert not roots().anywhere


def test_hard_link_to_a_file_outside_of_the_roots_is_not_distinguished(landing: Path) -> None:
    os.link(landing.parent / "private" / "b.csv", landing / "linked.csv")
    assert roots(landing).check_file(str(landing / "linked.csv")) == str(landing / "linked.csv")
