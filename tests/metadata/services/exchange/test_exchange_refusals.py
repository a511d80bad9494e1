"""Tests of invalid YAML: refused with file, line and field, and without any write."""

import datetime
from pathlib import Path

import pytest

from elevata.core.errors import MetadataError
from metadata.models import System, TargetDataset
from metadata.services.exchange.metadata_files import export_metadata, import_metadata
from metadata.services.exchange.yaml_files import MAX_BYTES

pytestmark = pytest.mark.django_db

AIR = """\
format: metadata/v1
system:
  short_name: air
  name: Airports
  datasets:
    - name: airport
      location: airport.csv
      columns:
        - name: icao
          type: string
          business_key: 1
        - name: lat
          type: float
"""
REFERENCES = """\
format: metadata/v1
references:
  - child: rawcore.rc_air_airport
    parent: rawcore.rc_air_airport
    role_name: hub
    columns:
      icao: icao
"""


def refusal(tmp_path: Path, text: str | bytes, name: str = "bad.yaml") -> MetadataError:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(MetadataError) as refused:
        import_metadata(tmp_path)
    assert not System.objects.exists()
    return refused.value


@pytest.mark.parametrize(
    ("old", "new", "place", "field", "code"),
    [
        ("  name: Airports", "  name: Airports\n  colour: red", "5:3", "colour", "unknown_field"),
        ("          type: float", "          typ: float", "13:11", "typ", "unknown_field"),
        ("          type: float", "", "12:11", "type", "missing_field"),
        ("type: float", "type: fload", "13:17", "type", "unknown_type"),
        ("type: float", "type: 5", "13:17", "type", "wrong_type"),
        ("business_key: 1", "business_key: first", "11:25", "business_key", "wrong_type"),
        ("business_key: 1", "business_key: 010", "11:25", "business_key", "wrong_type"),
        ("business_key: 1", "business_key: true", "11:25", "business_key", "wrong_type"),
        ("business_key: 1", "business_key: 1.5", "11:25", "business_key", "wrong_type"),
        ("business_key: 1", "nullable: maybe", "11:21", "nullable", "wrong_type"),
        ("name: lat", "name: no", "12:17", "name", "wrong_type"),
        ("name: lat", "name: 12", "12:17", "name", "wrong_type"),
        ("name: lat", "name:", "12:16", "name", "wrong_type"),
        ("name: lat", "name: 2026-01-01", "12:17", "name", "wrong_type"),
        ("name: lat", "name: ' '", "12:17", "name", "bad_name"),
        ("name: lat", "name: ICAO", "12:17", "name", "described_twice"),
        ("name: lat", "name: lat\n          name: lon", "13:11", "name", "duplicate_field"),
        ("location: airport.csv", "location: [a]", "7:17", "location", "wrong_type"),
        ("location: airport.csv", "location: a.csv\n      format: pdf", "8:15", "format", "wrong_value"),
        (
            "location: airport.csv",
            "location: a.csv\n      options: {sep: 1}",
            "8:22",
            "options.sep",
            "bad_option",
        ),
        (
            "location: airport.csv",
            "location: a.csv\n      history_policy: {input: all}",
            "8:31",
            "history_policy.input",
            "bad_history_policy",
        ),
        ("location: airport.csv", "location: a.csv\n      key: abc", "8:12", "key", "wrong_type"),
        ("format: metadata/v1", "format: metadata/v2", "1:9", "format", "wrong_value"),
        ("format: metadata/v1\n", "", "1:1", "format", "missing_field"),
        ("  short_name: air", "  short_name: a-b", "3:15", "short_name", "bad_name"),
        ("  name: Airports", "  name: &x Airports", "4:9", "", "alias"),
        ("  name: Airports", "  name: !!python/name:os.system x", "4:9", "", "bad_yaml"),
        ("  name: Airports", '  name: "a\\0b"', "4:9", "", "bad_text"),
        ("  name: Airports", "  name: [", "", "", "bad_yaml"),
        ("  name: Airports", "\tname: Airports", "4:1", "", "bad_yaml"),
        ("  datasets:", "  tags: one\n  datasets:", "5:9", "tags", "wrong_type"),
    ],
)
def test_a_fault_is_named_with_its_place(tmp_path: Path, old: str, new: str, place: str, field: str, code: str) -> None:
    assert old in AIR
    problem = refusal(tmp_path, AIR.replace(old, new))
    expected = f"{tmp_path / 'bad.yaml'}:{place}" if place else problem.place
    assert (problem.code, problem.field, problem.place) == (code, field, expected)


def test_error_line_contains_file_line_object_field_and_message(tmp_path: Path) -> None:
    problem = refusal(tmp_path, AIR.replace("type: float", "type: fload"))
    where = f"{tmp_path}/bad.yaml:13:17: air.airport.lat: type"
    assert problem.one_line().startswith(f"{where}: 'fload' is not a type; known are")


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        (
            "parent: rawcore.rc_air_airport",
            "parent: rawcore.rc_runway",
            "4:13",
            "no dataset 'rawcore.rc_runway'",
        ),
        ("icao: icao", "icao: runway", "7:7", "has no column 'runway'"),
        ("icao: icao", "icao: lat", "7:7", "lat is float"),
        ("icao: icao", "lat: lat", "7:7", "not in the parent's business key"),
        ("role_name: hub", "role_name: h b", "5:16", "must start with a letter"),
        ("    role_name: hub\n", "", "3:5", "like the dataset's own key"),
        ("role_name: hub", "role_name: hub\n    unknown_parent: refuse", "6:21", "refers to itself"),
        ("role_name: hub", "role_name: hub\n    unknown_parent:", "6:20", "must be text"),
    ],
)
def test_reference_to_an_unknown_or_unsuitable_object_is_refused_with_its_place(
    tmp_path: Path, old: str, new: str, place: str, message: str
) -> None:
    (tmp_path / "air.yaml").write_text(AIR)
    problem = refusal(tmp_path, REFERENCES.replace(old, new))
    assert (problem.place, message in problem.message) == (f"{tmp_path / 'bad.yaml'}:{place}", True), str(problem)


@pytest.mark.full
@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        (
            "  generated_from: air.airport",
            "  generated_from: air.runway",
            6,
            "no source dataset 'air.runway'",
        ),
        (
            "  - dataset: stage.stg_air_airport",
            "  - dataset: stage.stg_x",
            11,
            "no dataset 'stage.stg_x'",
        ),
        ("    inputs: [icao]", "    inputs: [runway]", 18, "has no column 'runway'"),
        ("  schema: rawcore", "  schema: core", 3, "no schema 'core'"),
        ("  name: rc_air_airport", "  name: rc_air_airport_hist", 4, "reserved"),
        ("  historize: true", "  historize: true\n  materialization: view", 3, "Only a table"),
        ("  historize: true", "  historize: true\n  filter: select 1", 8, "subquery"),
        ("  historize: true", "  historize: true\n  filter: runway > 1", 8, "names 'runway'"),
        ("  historize: true", "  historize: true\n  history_policy: {time: at}", 8, "no column 'at'"),
        (
            "  historize: true",
            "  historize: true\n  history_policy:\n    views: [current]\n    state_labels: {new: deleted}",
            10,
            "new and deleted would both be 'deleted'",
        ),
        ("  historize: true", "  historize: true\n  history_policy:\n    views: [newest]", 9, "must be a list of"),
        ("    inputs: [lat]", "    inputs: [lat]\n    expression: now()", 23, "now is not allowed"),
        ("    inputs: [lat]", "    inputs: [lat]\n    retired_at: soon", 23, "time with its zone"),
        ("  - name: lat", "  - name: row_hash", 19, "technical column"),
    ],
)
def test_a_fault_in_a_target_is_named_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    (tmp_path / "air.yaml").write_text(AIR)
    import_metadata(tmp_path)
    export_metadata(tmp_path)
    (tmp_path / "air.yaml").unlink()
    path = tmp_path / "targets/rawcore/rc_air_airport.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(MetadataError) as refused:
        import_metadata(tmp_path)
    where, number, _ = refused.value.place.rsplit(":", 2)
    assert (where, int(number), message in refused.value.message) == (str(path), line, True), str(refused.value)


def test_refused_import_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(AIR)
    refusal(tmp_path, REFERENCES.replace("icao: icao", "icao: runway"), "b.yaml")
    assert not TargetDataset.objects.exists()


def test_a_key_of_another_object_is_refused(tmp_path: Path) -> None:
    (tmp_path / "air.yaml").write_text(AIR)
    import_metadata(tmp_path)
    key = "00000000-0000-4000-8000-000000000000"
    (tmp_path / "air.yaml").write_text(AIR.replace("- name: lat", f"- name: lat\n          key: {key}"))
    with pytest.raises(MetadataError, match=r"air.yaml:13:16: .*exists with another key"):
        import_metadata(tmp_path)


def test_import_refuses_an_object_described_in_two_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(AIR)
    problem = refusal(tmp_path, AIR, "b.yaml")
    assert f"described twice, here and at {tmp_path / 'a.yaml'}:3:3" in problem.message


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "empty"),
        (b"# nothing\n", "empty"),
        (b"- a\n", "wrong_type"),
        (b"text\n", "wrong_type"),
        (b"format: metadata/v1\n---\nformat: metadata/v1\n", "bad_yaml"),
        (b"format: \xff\xfe\n", "wrong_encoding"),
        (b"format: metadata/v1\nx: " + b"[" * 40 + b"]" * 40 + b"\n", "too_big"),
        (b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "alias"),
        (b"? [a]\n: b\n", "bad_yaml"),
        (b"#" * (MAX_BYTES + 1), "too_big"),
    ],
)
def test_import_refuses_a_file_without_valid_metadata(tmp_path: Path, content: bytes, code: str) -> None:
    problem = refusal(tmp_path, content)
    assert (problem.code, problem.place.startswith(str(tmp_path / "bad.yaml"))) == (code, True)


def test_a_missing_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MetadataError, match="does not exist"):
        import_metadata(tmp_path / "nowhere")


def test_a_folder_without_yaml_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MetadataError, match="no YAML files"):
        import_metadata(tmp_path)


def test_import_accepts_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "air.yaml").write_bytes(b"\xef\xbb\xbf" + AIR.encode())
    import_metadata(tmp_path)
    assert System.objects.get().name == "Airports"


def test_import_accepts_an_unquoted_retirement_time(tmp_path: Path) -> None:
    (tmp_path / "air.yaml").write_text(AIR)
    import_metadata(tmp_path)
    export_metadata(tmp_path / "out")
    path = tmp_path / "out/targets/raw/raw_air_airport.yaml"
    path.write_text(path.read_text() + "  retired_at: 2026-01-31 12:00:00+00:00\n")
    import_metadata(path)
    row = TargetDataset.objects.get(name="raw_air_airport")
    assert row.retired_at == datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
    assert row.retired_by == "person"
