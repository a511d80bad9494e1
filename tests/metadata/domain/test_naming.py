"""Tests of the names of tables and columns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.domain import naming
from metadata.domain.naming import NameProblem


@pytest.mark.parametrize(
    ("layer", "name"),
    [("raw", "raw_air_airport"), ("stage", "stg_air_airport"), ("rawcore", "rc_air_airport")],
)
def test_generated_tables_are_named_by_layer_system_and_dataset(layer: str, name: str) -> None:
    assert naming.generated_name(layer, "air", "airport") == name


def test_history_name_is_the_base_name_with_a_suffix() -> None:
    assert naming.history_name("rc_air_airport") == "rc_air_airport_hist"


def test_a_foreign_key_is_named_by_its_role() -> None:
    assert naming.foreign_key_name("origin", "rc_air_airport") == "origin_key"


def test_a_foreign_key_without_a_role_is_named_like_the_parents_key() -> None:
    assert naming.foreign_key_name("", "rc_air_airport") == naming.entity_key_name("rc_air_airport")


@pytest.mark.parametrize("name", ["a", "rc_air_airport", "A1_", "x" * 115])
def test_plain_table_names_are_accepted(name: str) -> None:
    naming.check_table_name(name)


@pytest.mark.parametrize(
    "name", ["", "1a", "_a", "a-b", "a b", "a.b", "größe", "a`b", "x" * 116, "a_hist", "A_HIST", "a\n"]
)
def test_table_names_with_invalid_characters_length_or_history_suffix_are_refused(name: str) -> None:
    with pytest.raises(NameProblem):
        naming.check_table_name(name)


def test_a_history_table_must_have_the_suffix() -> None:
    with pytest.raises(NameProblem):
        naming.check_table_name("rc_air_airport", history=True)


@pytest.mark.parametrize("name", ["a", "First Name", "größe", "名前", "a`b", "2nd", "a.b", " x", "a;b", "select"])
def test_delivered_column_names_are_accepted(name: str) -> None:
    naming.check_column_name(name)


@pytest.mark.parametrize("name", ["", "   ", "\u3000", "a\nb", "a\0b", "\x85", "\ud800", "x" * 201, "名" * 86])
def test_blank_control_character_or_overlong_column_names_are_refused(name: str) -> None:
    with pytest.raises(NameProblem):
        naming.check_column_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "load_run_id",
        "LOADED_AT",
        "row_hash",
        "rc_a_key",
        "RC_A_hist_key",
        "version_started_at",
        "version_segment",
        "_fivetran_start",
        "_FIVETRAN_SYNCED",
        "dbt_scd_id",
        "dbt_valid_to",
        "__is_current",
        "__event_kind",
        "__change",
    ],
)
def test_technical_columns_are_reserved_in_rawcore(name: str) -> None:
    with pytest.raises(NameProblem, match="technical"):
        naming.check_column_name(name, reserved=naming.reserved_column_names("rawcore", "rc_a"))


@pytest.mark.parametrize("layer", ["stage", "rawcore", "bizcore", "serving"])
@pytest.mark.parametrize("name", ["__held", "__Key", "__", "__größe"])
def test_column_names_with_two_leading_underscores_are_refused(layer: str, name: str) -> None:
    with pytest.raises(NameProblem, match="begins with __"):
        naming.check_column_name(name, reserved_prefix=naming.reserved_prefix(layer))


@pytest.mark.parametrize("name", ["_held", "a__b", "held__"])
def test_underscores_elsewhere_in_a_column_name_are_accepted(name: str) -> None:
    naming.check_column_name(name, reserved_prefix=naming.reserved_prefix("rawcore"))


def test_raw_accepts_column_names_with_two_leading_underscores() -> None:
    naming.check_column_name("__op", reserved_prefix=naming.reserved_prefix("raw"))


def test_raw_reserves_only_its_own_technical_columns() -> None:
    assert naming.reserved_column_names("raw", "raw_a") == {
        "load_run_id",
        "loaded_at",
        "source_file",
        "source_row",
        "loaded_on",
    }


@pytest.mark.parametrize(
    ("delivered", "safe"),
    [
        ("icao", "icao"),
        ("firstName", "firstName"),
        ("First Name", "first_name"),
        ("FirstName (en)", "first_name_en"),
        ("größe", "größe"),
        ("2nd", "c_2nd"),
        ("%%", "column_7"),
        ("a--b", "a_b"),
        ("_x y", "x_y"),
        ("_x", "_x"),
        ("__op", "op"),
        ("__2nd", "c_2nd"),
        ("__", "column_7"),
    ],
)
def test_safe_names_read_well_in_sql(delivered: str, safe: str) -> None:
    assert naming.safe_column_name(delivered, 7) == safe


@given(st.text(min_size=1, max_size=30).filter(str.strip))
def test_safe_column_name_of_a_safe_name_is_the_same(name: str) -> None:
    safe = naming.safe_column_name(name, 1)
    assert naming.safe_column_name(safe, 1) == safe


@given(st.lists(st.sampled_from(["a", "A", "b", "a_2", "A_3"]), max_size=8))
def test_free_names_never_collide_whatever_their_case(names: list[str]) -> None:
    used: list[str] = []
    for name in names:
        used.append(naming.free_name(name, used))
    assert len({name.lower() for name in used}) == len(names)


def test_free_name_respects_the_length_limit() -> None:
    assert len(naming.free_name("x" * 200, ["x" * 200])) == 200


@pytest.mark.parametrize(
    ("table", "base"),
    [
        ("rc_a", "rc_a"),
        ("rc_a_hist", "rc_a"),
        ("RC_A_HIST", "RC_A"),
        ("rc_a_hist_events", "rc_a"),
        ("a_events", "a_events"),
    ],
)
def test_base_name_omits_the_suffix_of_a_history_and_its_event_log(table: str, base: str) -> None:
    assert naming.base_name(table) == base
