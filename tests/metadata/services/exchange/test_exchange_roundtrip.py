"""Tests that metadata exported and imported elsewhere exports the same bytes again."""

import os
from pathlib import Path

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metadata.domain.naming import safe_table_part
from metadata.models import SourceDataset, System, TargetColumn, TargetDataset, TargetSchema
from metadata.selectors.dataset_states import dataset_states
from metadata.services import lifecycle, sources
from metadata.services.datasets import targets
from metadata.services.datasets.generation import generate_targets
from metadata.services.exchange.metadata_files import export_metadata, import_metadata
from metadata.services.exchange.yaml_files import dump_yaml, parse_yaml
from metadata.services.references import create_reference, retire_reference
from tests.metadata.domain.test_types import data_types

pytestmark = pytest.mark.django_db

EXAMPLES = 60 if os.environ.get("ELEVATA_EXAMPLES") == "night" else 6

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
NAME = st.from_regex(r"[a-z][a-z0-9_]{0,7}", fullmatch=True).filter(lambda name: not name.endswith("_hist"))
COLUMN_NAME = (
    st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), min_size=1, max_size=12).filter(str.strip)
    | NAME
    | st.sampled_from(["yes", "no", "null", "~", "1", "1.5", "2026-01-01", "key: x", "- a", "#", "{{ x }}", "a`b"])
)
DESCRIBED = st.fixed_dictionaries(
    {}, optional={"description": TEXT, "owner": TEXT, "tags": st.lists(NAME, max_size=3, unique=True)}
)


@st.composite
def source_columns(draw: st.DrawFn) -> list[dict]:
    names = draw(st.lists(COLUMN_NAME, min_size=2, max_size=5, unique_by=lambda name: name.lower()))
    # SQLite and PostgreSQL fold the case of other letters differently, which this test ignores.
    names = [name for name in names if name.lower().isascii() or name.lower() == name] or ["id"]
    columns = [
        {
            "name": name,
            "type": draw(data_types()),
            "nullable": draw(st.booleans()),
            "pii": draw(st.booleans()),
            "sensitivity": draw(st.sampled_from(["", "public", "restricted"])),
            **draw(DESCRIBED),
        }
        for name in names
    ]
    columns[0]["key_ordinal"] = 1
    if len(columns) > 2:
        columns[-1] |= draw(st.sampled_from([{}, {"active": False}, {"integrate": False}]))
    return columns


@st.composite
def source_datasets(draw: st.DrawFn) -> dict:
    kind = draw(st.sampled_from(["csv", "jsonl", "parquet"]))
    options = {"csv": {"delimiter": ";", "header": True, "quote": ""}, "jsonl": {"expected_files": 3}}
    return {
        "name": draw(NAME),
        "location": "data.file",
        "format": kind,
        "options": options.get(kind, {}) if draw(st.booleans()) else {},
        "historize": draw(st.booleans()),
        "columns": draw(source_columns()),
        "generate": draw(st.booleans()),
        "edits": draw(st.sets(st.sampled_from(sorted(EDITS)))),
        **draw(DESCRIBED),
    }


SYSTEMS = st.lists(
    st.tuples(
        NAME,
        # The short name, which is derived from the name, is unique in a system.
        st.lists(source_datasets(), min_size=1, max_size=2, unique_by=lambda dataset: safe_table_part(dataset["name"])),
    ),
    min_size=1,
    max_size=2,
    unique_by=lambda system: system[0],
)


def rename_the_dataset(row: TargetDataset) -> None:
    lifecycle.rename_dataset(dataset=row, name=f"renamed_{row.pk}", expected_version=row.version)


def rename_the_key(row: TargetDataset) -> None:
    column = row.columns.filter(active=True).first()
    lifecycle.rename_column(column=column, name="Neuer Schlüssel", expected_version=column.version)


def retire_the_dataset(row: TargetDataset) -> None:
    lifecycle.retire_dataset(dataset=row, expected_version=row.version)


def retire_a_column(row: TargetDataset) -> None:
    column = row.columns.filter(active=True, role="attribute").last()
    if column is not None:
        lifecycle.retire_column(column=column, expected_version=column.version)


def add_an_expression(row: TargetDataset) -> None:
    targets.create_target_column(
        dataset=row, name="added", type="timestamp", expression="{{ load_timestamp }}", ordinal=50
    )


def track_it(row: TargetDataset) -> None:
    column = row.columns.filter(active=True, role="attribute").first()
    if column is not None:
        policy = {"track": [column.name], "untracked": "keep", "profile": "scd2"}
        policy |= {"state_labels": {"new": "Ä", "deleted": "no"}, "views": ["changes", "current"]}
        targets.update_target_dataset(dataset=row, expected_version=row.version, history_policy=policy)


def switch_history_off(row: TargetDataset) -> None:
    targets.update_target_dataset(dataset=row, expected_version=row.version, historize=False)


def refer_to_itself(row: TargetDataset) -> None:
    key = row.columns.filter(role="business_key").get()
    reference = create_reference(child=row, parent=row, role_name="self", pairs=[(key, key)])
    retire_reference(reference=reference, expected_version=1)


EDITS = {
    "1 rename the key": rename_the_key,
    "1 retire a column": retire_a_column,
    "2 track": track_it,
    "3 expression": add_an_expression,
    "4 refer": refer_to_itself,
    "5 rename": rename_the_dataset,
    "6 history off": switch_history_off,
    "7 retire": retire_the_dataset,
}


def build(systems: list[tuple[str, list[dict]]]) -> None:
    for short_name, datasets in systems:
        system = sources.create_system(name=f"The {short_name}", short_name=short_name)
        for described in datasets:
            given = {k: v for k, v in described.items() if k not in ("columns", "generate", "edits")}
            dataset = sources.create_source_dataset(system=system, **given)
            for column in described["columns"]:
                sources.create_source_column(source_dataset=dataset, **column)
            if described["generate"]:
                generate_targets(source_dataset=dataset)
                for edit in sorted(described["edits"]):
                    EDITS[edit](
                        TargetDataset.objects.get(generated_from=dataset, schema__layer="rawcore", history_of=None)
                    )


def exported(folder: Path) -> dict[str, str]:
    export_metadata(folder)
    return {str(p.relative_to(folder)): p.read_text("utf-8") for p in folder.rglob("*.yaml")}


@pytest.mark.full
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(systems=SYSTEMS)
def test_an_import_of_an_export_exports_the_same_bytes(systems: list, tmp_path_factory: pytest.TempPathFactory) -> None:
    first, second = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")
    with transaction.atomic():
        build(systems)
        files, states = exported(first), dataset_states()
        transaction.set_rollback(True)
    with transaction.atomic():
        import_metadata(first)
        assert exported(second) == files
        assert dataset_states() == states
        transaction.set_rollback(True)


@pytest.mark.full
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(systems=SYSTEMS)
def test_an_import_into_its_own_database_changes_nothing(
    systems: list, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("export")
    with transaction.atomic():
        build(systems)
        export_metadata(folder)
        assert import_metadata(folder).changes == []
        transaction.set_rollback(True)


@pytest.mark.full
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(systems=SYSTEMS)
def test_generating_again_changes_nothing(systems: list) -> None:
    with transaction.atomic():
        build([(name, [{**item, "generate": True} for item in datasets]) for name, datasets in systems])
        for dataset in SourceDataset.objects.all():
            assert not generate_targets(source_dataset=dataset)
        transaction.set_rollback(True)


AWKWARD = st.text("ab \n\t:#-'\"\\{}|>&*!%@`,?[]~\x85\u2028\ufeff\r.1", max_size=12)


@given(st.dictionaries(TEXT | AWKWARD, TEXT | AWKWARD | st.lists(TEXT | AWKWARD, max_size=3), min_size=1, max_size=3))
def test_any_text_survives_yaml(content: dict) -> None:
    assert parse_yaml(dump_yaml(content), "x.yaml").plain() == content


AIR = """\
format: metadata/v1
system:
  short_name: air
  name: Airports
  datasets:
    - name: airport
      location: airport.csv
      columns:
        - {name: icao, type: string, business_key: 1}
        - {name: name, type: string}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "air.yaml").write_text(AIR)
    import_metadata(tmp_path)
    folder = tmp_path / "export"
    export_metadata(folder)
    return folder


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


RUNWAYS = """\
format: metadata/v1
system:
  short_name: net
  name: Runways
  datasets:
    - name: runway
      location: runway.csv
      columns:
        - {name: runway, type: string, business_key: 1}
        - {name: icao, type: string}
references:
  - child: rawcore.rc_net_runway
    parent: rawcore.rc_air_airport
    columns: {icao: icao}
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("written", "exported"), [("", None), ("null", "'null'"), ("'null'", "'null'"), ("ghost", "ghost")]
)
def test_a_rule_for_unknown_parents_is_exported_unless_it_is_the_default(
    folder: Path, written: str, exported: str | None
) -> None:
    more = f"    unknown_parent: {written}\n" if written else ""
    (folder / "runways.yaml").write_text(RUNWAYS + more)
    import_metadata(folder)
    export_metadata(folder)
    text = (folder / "targets/rawcore/rc_net_runway.yaml").read_text()
    assert ("unknown_parent" in text) == (exported is not None)
    assert exported is None or f"unknown_parent: {exported}" in text


def test_imported_source_generates_its_targets(folder: Path) -> None:
    assert TargetDataset.objects.count() == 4


def test_exported_source_with_its_targets_is_not_generated_again(folder: Path) -> None:
    source = SourceDataset.objects.get()
    sources.create_source_column(source_dataset=source, name="later", type="string")
    export_metadata(folder)
    import_metadata(folder)
    assert not TargetColumn.objects.filter(name="later").exists()


def test_generate_true_generates_beside_targets(folder: Path) -> None:
    edit(folder / "systems/air.yaml", "    columns:\n", "    generate: true\n    columns:\n")
    edit(folder / "systems/air.yaml", "columns:\n", "columns:\n    - {name: later, type: string}\n")
    import_metadata(folder)
    assert TargetColumn.objects.filter(name="later").count() == 3


def test_generate_false_generates_nothing(tmp_path: Path) -> None:
    (tmp_path / "air.yaml").write_text(AIR.replace("      columns", "      generate: false\n      columns"))
    import_metadata(tmp_path)
    assert TargetDataset.objects.count() == 0


def test_changed_name_in_a_file_renames_the_dataset_and_its_history(folder: Path) -> None:
    edit(folder / "targets/rawcore/rc_air_airport.yaml", "name: rc_air_airport\n", "name: airport\n")
    import_metadata(folder)
    row = TargetDataset.objects.get(name="airport")
    assert (row.former_names, row.history.name) == (["rc_air_airport"], "airport_hist")


def test_two_columns_may_swap_names_in_a_file(folder: Path) -> None:
    path = folder / "targets/rawcore/rc_air_airport.yaml"
    before = dict(TargetColumn.objects.filter(dataset__name="rc_air_airport").values_list("key", "name"))
    for old, new in (
        ("- name: icao", "- name: tmp"),
        ("- name: name", "- name: icao"),
        ("- name: tmp", "- name: name"),
    ):
        edit(path, old, new)
    import_metadata(folder)
    after = dict(TargetColumn.objects.filter(dataset__name="rc_air_airport").values_list("key", "name"))
    assert sorted(before.values()) == sorted(after.values())
    assert all(before[key] != after[key] for key in before)


def test_two_datasets_may_swap_names_in_files(folder: Path) -> None:
    row = TargetDataset.objects.get(name="rc_air_airport")
    other = targets.create_target_dataset(schema=row.schema, name="other", historize=True)
    export_metadata(folder)
    edit(folder / "targets/rawcore/rc_air_airport.yaml", "name: rc_air_airport\n", "name: other\n")
    edit(folder / "targets/rawcore/other.yaml", "name: other\n", "name: rc_air_airport\n")
    import_metadata(folder)
    other.refresh_from_db()
    assert (other.name, other.history.name) == ("rc_air_airport", "rc_air_airport_hist")


def test_imported_columns_are_ordered_as_in_the_file(tmp_path: Path, folder: Path) -> None:
    lines = AIR.splitlines(keepends=True)
    (tmp_path / "again.yaml").write_text("".join([*lines[:-2], lines[-1], lines[-2]]))
    import_metadata(tmp_path / "again.yaml")
    assert [column.name for column in SourceDataset.objects.get().columns.all()] == ["name", "icao"]


def test_import_keeps_objects_missing_in_the_files(tmp_path: Path, folder: Path) -> None:
    System.objects.filter(short_name="air").update(owner="Kim")
    sources.create_system(name="Other", short_name="other")
    import_metadata(folder)
    assert System.objects.filter(short_name="other").exists()


def test_import_resets_omitted_fields_to_their_default(folder: Path) -> None:
    System.objects.filter(short_name="air").update(owner="Kim")
    import_metadata(folder)
    assert System.objects.get().owner == ""


def test_import_check_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "air.yaml").write_text(AIR)
    report = import_metadata(tmp_path, check=True)
    assert (report.count("created") > 0, System.objects.count(), TargetSchema.objects.count()) == (True, 0, 0)


def test_export_deletes_files_of_renamed_datasets(folder: Path) -> None:
    row = TargetDataset.objects.get(name="rc_air_airport")
    lifecycle.rename_dataset(dataset=row, name="airport", expected_version=row.version)
    report = export_metadata(folder)
    assert report.removed == ["targets/rawcore/rc_air_airport.yaml"]


def test_export_keeps_foreign_files(folder: Path) -> None:
    (folder / "systems" / "notes.yaml").write_text("ours: true\n")
    export_metadata(folder)
    assert (folder / "systems" / "notes.yaml").is_file()
