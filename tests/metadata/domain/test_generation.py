"""Tests of the rules that generate targets from a source, without a database."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.domain import stable_keys
from metadata.domain.generation import GeneratedDataset, SourceColumnSpec, SourceDatasetSpec, generate
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.types import parse

KEY = stable_keys.source_dataset_key("air", "airport")


def column(name: str, type_: str = "string", **values: object) -> SourceColumnSpec:
    return SourceColumnSpec(stable_keys.source_column_key(KEY, name), name, parse(type_), **values)


AIRPORT = SourceDatasetSpec(
    KEY, "air", "airport", "csv", (column("icao", key_ordinal=1), column("Full Name"), column("lat", "float"))
)


def by_name(source: SourceDatasetSpec = AIRPORT) -> dict[str, GeneratedDataset]:
    return {dataset.name: dataset for dataset in generate(source)}


def test_a_source_has_raw_stage_rawcore_and_history() -> None:
    assert list(by_name()) == ["raw_air_airport", "stg_air_airport", "rc_air_airport", "rc_air_airport_hist"]


def test_stage_is_a_view_and_the_others_are_tables() -> None:
    kinds = {dataset.layer: dataset.materialization for dataset in generate(AIRPORT)}
    assert kinds == {"raw": "table", "stage": "view", "rawcore": "table"}


def test_each_layer_reads_the_one_before() -> None:
    raw, stage, rawcore, history = generate(AIRPORT)
    assert (raw.input, stage.input, rawcore.input) == (KEY, raw.key, stage.key)


def test_history_has_no_columns_of_its_own() -> None:
    assert by_name()["rc_air_airport_hist"].columns == ()


@pytest.mark.parametrize("source_format", ["csv", "jsonl"])
def test_raw_stores_text_formats_as_strings(source_format: str) -> None:
    raw = generate(replace(AIRPORT, format=source_format))[0]
    assert {str(c.type) for c in raw.columns} == {"string"}


def test_raw_stores_parquet_columns_in_their_own_types() -> None:
    raw = generate(replace(AIRPORT, format="parquet"))[0]
    assert [str(c.type) for c in raw.columns] == ["string", "string", "float"]


def test_delivered_names_with_two_underscores_are_kept_in_raw_only() -> None:
    raw, stage, rawcore, _ = generate(replace(AIRPORT, columns=(*AIRPORT.columns, column("__op"), column("op"))))
    assert [c.name for c in raw.columns][3:] == ["__op", "op"]
    assert [c.name for c in stage.columns][3:] == [c.name for c in rawcore.columns][3:] == ["op_2", "op"]


def test_raw_keeps_the_delivered_names() -> None:
    assert [c.name for c in by_name()["raw_air_airport"].columns] == ["icao", "Full Name", "lat"]


def test_stage_and_rawcore_columns_get_readable_names() -> None:
    names = [[c.name for c in by_name()[name].columns] for name in ("stg_air_airport", "rc_air_airport")]
    assert names == [["icao", "full_name", "lat"]] * 2


def test_rawcore_has_the_sources_types() -> None:
    assert [str(c.type) for c in by_name()["rc_air_airport"].columns] == ["string", "string", "float"]


def test_key_columns_of_a_source_become_required_business_keys() -> None:
    first = by_name()["rc_air_airport"].columns[0]
    assert (first.role, first.key_ordinal, first.nullable) == ("business_key", 1, False)


def test_a_delivered_column_named_like_a_technical_one_gets_another_name() -> None:
    source = replace(AIRPORT, columns=(*AIRPORT.columns, column("loaded_at"), column("row_hash")))
    assert [c.name for c in by_name(source)["rc_air_airport"].columns][3:] == ["loaded_at_2", "row_hash_2"]


def test_readable_name_is_kept_if_an_earlier_column_would_become_the_same() -> None:
    source = replace(AIRPORT, columns=(column("Full-Name", key_ordinal=1), column("full_name")))
    assert [c.name for c in by_name(source)["rc_air_airport"].columns] == ["full_name_2", "full_name"]


def test_source_without_a_business_key_generates_no_rawcore_dataset() -> None:
    source = replace(AIRPORT, columns=(column("icao"),))
    assert list(by_name(source)) == ["raw_air_airport", "stg_air_airport"]


def test_appended_rows_need_no_business_key() -> None:
    source = replace(AIRPORT, columns=(column("icao"),), historize=False, history_policy=HistoryPolicy(input="append"))
    assert list(by_name(source)) == ["raw_air_airport", "stg_air_airport", "rc_air_airport"]


def test_source_without_historize_generates_no_history() -> None:
    assert "rc_air_airport_hist" not in by_name(replace(AIRPORT, historize=False))


def test_the_policy_names_rawcores_columns() -> None:
    source = replace(AIRPORT, history_policy=HistoryPolicy(track=("Full Name",)))
    assert by_name(source)["rc_air_airport"].history_policy.track == ("full_name",)


@given(st.lists(st.text(max_size=12).filter(str.strip), min_size=1, max_size=8, unique=True))
def test_columns_of_a_dataset_never_share_a_name(names: list[str]) -> None:
    columns = tuple(column(name, key_ordinal=1 if name == names[0] else None) for name in names)
    for dataset in generate(replace(AIRPORT, columns=columns)):
        assert len({c.name.lower() for c in dataset.columns}) == len(dataset.columns)
