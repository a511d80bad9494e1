"""Statements that publish the views of a history, as text; tests with Spark run them."""

import pytest

from architecture.domain.history_views import history_views
from metadata.domain import naming
from metadata.domain.history.history_policy import VIEWS
from metadata.domain.sql import quote_identifier
from metadata.domain.state import ColumnState, DatasetState
from tests.architecture.domain.test_history_layout import FILES, dataset, stable


def statements(*views: str, at: str = "timestamp", **policy) -> tuple[str, ...]:
    return history_views(dataset(at, views=list(views), **policy))


def body(statement: str) -> str:
    """Return the statement without its COMMENT and WITH SCHEMA lines."""
    return " ".join(line for line in statement.splitlines() if not line.startswith(("COMMENT", "WITH SCHEMA")))


def test_views_are_published_only_if_the_policy_lists_them() -> None:
    assert statements() == ()


def test_views_are_published_only_with_a_history() -> None:
    state = dataset(views=list(VIEWS))
    assert history_views(DatasetState(**{**vars(state), "historize": False})) == ()


def test_each_view_choice_publishes_its_view() -> None:
    names = [statement.split("(")[0].split("`")[3] for statement in statements(*VIEWS, input="snapshot")]
    assert names == [
        "rc_a_hist_high",
        "rc_a_hist_current",
        "rc_a_hist_periods",
        "rc_a_hist_as_of",
        "rc_a_hist_changes",
    ]


def test_current_view_statement_has_comment_columns_and_filter() -> None:
    (statement,) = statements("current", profile="scd2")
    assert statement == (
        "CREATE OR REPLACE VIEW `rawcore`.`rc_a_hist_current`\n"
        "COMMENT 'What holds now, and since when'\n"
        "WITH SCHEMA TYPE EVOLUTION\n"
        "AS SELECT `rc_a_key`, `id`, `v`, `at`, `__valid_from`\n"
        "FROM `rawcore`.`rc_a_hist` WHERE `version_segment` = 'open'"
    )


@pytest.mark.parametrize(
    ("policy", "end"),
    [
        ({}, "`version_ended_at` AS `__valid_to` FROM `rawcore`.`rc_a_hist`)"),
        ({"profile": "scd2"}, "`__valid_to` AS `__valid_to` FROM `rawcore`.`rc_a_hist`)"),
        (
            {"profile": "dbt", "open_end": "9999-12-31"},
            "CASE WHEN `dbt_valid_to` IS NULL OR `dbt_valid_to` >= TIMESTAMP '9999-12-31T00:00:00+00:00' "
            "THEN NULL ELSE `dbt_valid_to` END AS `__valid_to` FROM `rawcore`.`rc_a_hist`)",
        ),
        (
            {"open_end": "9999-12-31T12:00:00+02:00"},
            "CASE WHEN `version_ended_at` IS NULL OR `version_ended_at` >= TIMESTAMP '9999-12-31T10:00:00+00:00' "
            "THEN NULL ELSE `version_ended_at` END AS `__valid_to` FROM `rawcore`.`rc_a_hist`)",
        ),
        (
            FILES,
            "CASE WHEN `_fivetran_end` IS NULL OR `_fivetran_end` >= TIMESTAMP '9999-12-31T23:59:59.999000+00:00' "
            "THEN NULL ELSE `_fivetran_end` + INTERVAL 1 MILLISECOND END AS `__valid_to` FROM `rawcore`.`rc_a_hist`)",
        ),
        (
            {"deletes": "tombstone", "state_labels": {"deleted": "it's gone"}},
            "`version_ended_at` AS `__valid_to` FROM `rawcore`.`rc_a_hist` WHERE `version_state` <> 'it\\'s gone')",
        ),
    ],
)
def test_as_of_view_converts_stored_ends_to_half_open_periods(policy: dict, end: str) -> None:
    assert body(statements("as_of", **policy)[0]).endswith(end)


@pytest.mark.parametrize(("at", "type_"), [("timestamp", "TIMESTAMP"), ("date", "DATE"), ("bigint", "BIGINT")])
def test_as_of_parameter_has_the_type_of_the_version_dates(at: str, type_: str) -> None:
    statement = statements("as_of", at=at, input="effective", time="at")[1]
    assert statement.startswith(f"CREATE OR REPLACE FUNCTION `rawcore`.`rc_a_hist_as_of`(at {type_})\nRETURNS TABLE\n")


def test_as_of_parameter_is_qualified_with_the_function_name() -> None:
    assert "v.`__valid_from` <= `rc_a_hist_as_of`.at AND" in statements("as_of")[1]


@pytest.mark.parametrize(
    ("profile", "opened", "closed"),
    [
        ("elevata", "load_run_id", "closed_by_run_id"),
        ("dbt", "dbt_insert_process_id", "dbt_update_process_id"),
    ],
)
def test_changes_view_reads_the_run_columns_of_the_profile(profile: str, opened: str, closed: str) -> None:
    (statement,) = statements("changes", profile=profile)
    assert f"SELECT `__change`, `{opened}` AS `__run_id`, `__valid_from` AS `__changed_at`, `rc_a_key`" in statement
    assert f"SELECT 'D', coalesce(`{closed}`, `{opened}`), `__changed_at`, `rc_a_key`" in statement


@pytest.mark.parametrize(
    ("at", "high"),
    [
        ("timestamp", "TIMESTAMP '9999-12-31T23:59:59.999000+00:00'"),
        ("date", "DATE '9999-12-31'"),
        ("bigint", "CAST(9223372036854775807 AS BIGINT)"),
        ("integer", "CAST(2147483647 AS INT)"),
    ],
)
def test_high_end_is_the_last_value_of_its_type(at: str, high: str) -> None:
    (statement,) = statements("high_end_date", at=at, input="effective", time="at")
    assert f"coalesce(`version_ended_at`, {high}) AS `version_ended_at`" in statement


def test_column_names_are_quoted_in_every_view() -> None:
    odd = "a`b; DROP TABLE x --"
    state = dataset(views=list(VIEWS))
    column = ColumnState(stable("odd"), odd, "string")
    for statement in history_views(DatasetState(**{**vars(state), "columns": (*state.columns, column)})):
        assert odd not in statement
        assert quote_identifier(odd) in statement


@pytest.mark.parametrize("suffix", [naming.EVENT_LOG_SUFFIX, *naming.VIEW_SUFFIXES.values()])
def test_table_name_with_the_suffix_of_a_history_view_or_event_log_is_refused(suffix: str) -> None:
    with pytest.raises(naming.NameProblem, match="reserved for what stands beside"):
        naming.check_table_name(f"rc_a_hist{suffix}")


@pytest.mark.parametrize("view", naming.VIEW_SUFFIXES)
def test_the_longest_table_name_leaves_room_for_its_views(view: str) -> None:
    longest = "x" * naming.MAX_TABLE_NAME
    naming.check_table_name(longest)
    assert len(naming.view_name(longest, view)) <= 128
