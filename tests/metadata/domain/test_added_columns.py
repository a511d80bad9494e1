"""Tests of the columns that loads add, and of the described columns that each is computed from."""

import pytest

from metadata.domain.added_columns import Part, added_columns
from metadata.domain.history.history_policy import HistoryPolicy

PARTS = [Part(1, "number", True), Part(2, "changed", False), Part(3, "buyer", False)]
DATED = HistoryPolicy.from_dict({"input": "effective", "time": "Changed"})


def test_hashes_are_made_of_the_key_the_pairs_and_all_columns() -> None:
    table, history = added_columns("Orders", HistoryPolicy(), PARTS, {"Person_key": [3]})
    hashes = {"orders_key": (1,), "person_key": (3,), "row_hash": (1, 2, 3)}
    assert table == hashes | {"load_run_id": (), "loaded_at": ()}
    assert hashes.items() <= history.items()
    assert list(history)[:2] == ["orders_hist_key", "orders_key"]


def test_history_key_is_made_of_the_key_and_the_time_column() -> None:
    _, history = added_columns("orders", DATED, PARTS, {})
    assert history["orders_hist_key"] == (1, 2)
    _, dated_by_load = added_columns("orders", HistoryPolicy(), PARTS, {})
    assert dated_by_load["orders_hist_key"] == (1,)


def test_row_hash_and_times_but_no_key_are_made_of_retired_columns() -> None:
    retired = [Part(part.column, part.name, part.is_key, is_active=False) for part in PARTS]
    _, history = added_columns("orders", DATED, retired, {})
    assert (history["row_hash"], history["version_started_at"]) == ((1, 2, 3), (2,))
    assert (history["orders_key"], history["orders_hist_key"]) == ((), (2,))


@pytest.mark.parametrize(
    ("profile", "dated"),
    [
        ("elevata", {"version_started_at", "version_ended_at"}),
        ("fivetran", {"_fivetran_start", "_fivetran_end"}),
        ("dbt", {"dbt_updated_at", "dbt_valid_from", "dbt_valid_to"}),
        ("scd2", set()),
    ],
)
def test_dates_of_versions_are_made_of_the_time_column(profile: str, dated: set[str]) -> None:
    policy = HistoryPolicy.from_dict({"input": "effective", "time": "changed", "profile": profile})
    _, history = added_columns("orders", policy, PARTS, {})
    made_of_time = {name for name, columns in history.items() if columns == (2,)}
    assert made_of_time == dated | {"__valid_from", "__valid_to"}
