"""Technical columns of a history in each profile, whose names are reserved."""

from dataclasses import replace
from uuid import NAMESPACE_DNS, uuid5

import pytest

from architecture.domain.tables import event_log_table, history_table
from metadata.domain import naming
from metadata.domain.history.history_columns import LAYOUTS, ends_inclusive, open_end
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.state import ColumnState, DatasetState

FILES = {"input": "batch_files", "time": "_fivetran_start"}


def stable(name: str) -> str:
    return str(uuid5(NAMESPACE_DNS, name))


def dataset(at: str = "timestamp", /, **policy) -> DatasetState:
    columns = {"id": "integer", "v": "string", "at": at}
    return DatasetState(
        stable("a"),
        "rawcore",
        "rawcore",
        "rc_a",
        tuple(
            ColumnState(stable(name), name, type_, role="business_key" if name == "id" else "attribute")
            for name, type_ in columns.items()
        ),
        historize=True,
        history_key=stable("hist"),
        history_policy=policy,
    )


def own_columns(state: DatasetState) -> list[tuple[str, str]]:
    """Return name and type of the technical columns, in order."""
    table = history_table(state)
    described = table.of_purpose("business_key", "attribute", "foreign_key")
    return [(column.name, column.type) for column in table.columns if column not in described]


@pytest.mark.parametrize(
    ("profile", "columns"),
    [
        (
            "elevata",
            [
                ("rc_a_hist_key", "string"),
                ("rc_a_key", "string"),
                ("row_hash", "string"),
                ("version_started_at", "timestamp"),
                ("version_ended_at", "timestamp"),
                ("version_state", "string"),
                ("load_run_id", "string"),
                ("loaded_at", "timestamp"),
                ("closed_by_run_id", "string"),
                ("version_segment", "string"),
            ],
        ),
        (
            "fivetran",
            [
                ("rc_a_hist_key", "string"),
                ("rc_a_key", "string"),
                ("row_hash", "string"),
                ("_fivetran_start", "timestamp"),
                ("_fivetran_end", "timestamp"),
                ("_fivetran_active", "boolean"),
                ("_fivetran_synced", "timestamp"),
                ("version_state", "string"),
                ("load_run_id", "string"),
                ("closed_by_run_id", "string"),
                ("version_segment", "string"),
            ],
        ),
        (
            "dbt",
            [
                ("dbt_scd_id", "string"),
                ("rc_a_key", "string"),
                ("row_hash", "string"),
                ("dbt_updated_at", "timestamp"),
                ("dbt_valid_from", "timestamp"),
                ("dbt_valid_to", "timestamp"),
                ("version_state", "string"),
                ("dbt_insert_process_id", "string"),
                ("dbt_insert_timestamp", "timestamp"),
                ("dbt_update_process_id", "string"),
                ("dbt_update_timestamp", "timestamp"),
                ("version_segment", "string"),
            ],
        ),
        (
            "scd2",
            [
                ("rc_a_hist_key", "string"),
                ("rc_a_key", "string"),
                ("row_hash", "string"),
                ("__valid_from", "timestamp"),
                ("__valid_to", "timestamp"),
                ("__is_current", "boolean"),
                ("version_state", "string"),
                ("load_run_id", "string"),
                ("loaded_at", "timestamp"),
                ("closed_by_run_id", "string"),
                ("version_segment", "string"),
            ],
        ),
    ],
)
def test_history_has_the_technical_columns_of_its_profile(profile: str, columns: list[tuple[str, str]]) -> None:
    assert own_columns(dataset(profile=profile)) == columns


@pytest.mark.parametrize("profile", LAYOUTS)
def test_every_profile_has_columns_for_the_runs_that_opened_and_closed_a_version(profile: str) -> None:
    table = history_table(dataset(profile=profile))
    assert all(table.column(purpose) for purpose in ("started_at", "ended_at", "state", "run_id", "closed_by"))


@pytest.mark.parametrize("time", ["timestamp", "date", "bigint", "integer"])
def test_versions_are_dated_in_the_time_columns_type(time: str) -> None:
    table = history_table(dataset(time, input="effective", time="at"))
    assert {table.column(purpose).type for purpose in ("started_at", "ended_at")} == {time}


def test_a_history_dated_by_the_load_has_timestamps() -> None:
    assert history_table(dataset("date")).column("started_at").type == "timestamp"


@pytest.mark.parametrize(
    "policy", [*({"profile": profile} for profile in LAYOUTS), FILES, {"input": "cdc", "time": "at", "op": "v"}]
)
def test_every_technical_name_is_reserved(policy: dict) -> None:
    state = dataset(**policy)
    tables = [table for table in (history_table(state), event_log_table(state)) if table]
    technical = {c.name for table in tables for c in table.columns if c.purpose not in ("business_key", "attribute")}
    assert technical <= naming.reserved_column_names("rawcore", "rc_a")


def test_event_log_is_named_after_its_history() -> None:
    table = event_log_table(dataset(input="effective", time="at"))
    assert (table.name, table.column("event_at").type) == ("rc_a_hist_events", "timestamp")


def test_dated_load_without_history_has_the_same_event_log() -> None:
    state = dataset(input="effective", time="at")
    assert event_log_table(replace(state, historize=False)) == event_log_table(state)


@pytest.mark.parametrize("policy", [{"time": "at"}, {"input": "delta"}, {"input": "append"}])
def test_other_loads_without_a_history_have_no_event_log(policy: dict) -> None:
    assert event_log_table(replace(dataset(**policy), historize=False)) is None


@pytest.mark.parametrize(
    ("policy", "time", "end"),
    [
        ({}, "timestamp", None),
        ({"open_end": "9999-12-31"}, "timestamp", "9999-12-31"),
        ({"profile": "fivetran"}, "timestamp", "9999-12-31T23:59:59.999Z"),
        ({"profile": "fivetran", "input": "effective", "time": "at"}, "bigint", None),
        (FILES, "timestamp", "9999-12-31T23:59:59.999Z"),
    ],
)
def test_open_version_ends_with_the_value_of_policy_and_time_type(policy: dict, time: str, end: str | None) -> None:
    assert open_end(HistoryPolicy.from_dict(policy), time) == end


def test_only_batch_files_have_inclusive_ends() -> None:
    assert [ends_inclusive(HistoryPolicy.from_dict(p)) for p in (FILES, {"profile": "fivetran"})] == [True, False]
