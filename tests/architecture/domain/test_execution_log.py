"""Execution log: steps, actions of users, and the end."""

from architecture.domain import execution_log
from architecture.domain.execution_log import ERROR, INFO, WARNING, Line, Subject

STEP = Subject(ordinal=1, count=5, op="add_column", name="rawcore.rc_air_airport.lid")


def test_started_step_logs_number_table_version_and_statement():
    line = execution_log.step_began(STEP, "ALTER TABLE x\n  ADD COLUMNS (lid STRING)", 3)
    assert line == Line(
        "step 2 of 5, add_column rawcore.rc_air_airport.lid (table at version 3): "
        "ALTER TABLE x ADD COLUMNS (lid STRING)",
        INFO,
        1,
    )


def test_a_long_statement_is_cut_to_one_line():
    cut = execution_log.summary("SELECT " + "a, " * 200)
    assert len(cut) <= 160
    assert cut.endswith("…")


def test_finished_step_logs_duration_versions_and_rows():
    line = execution_log.step_ended(STEP, seconds=1.26, versions=(3, 4), rows=28130)
    assert line.message.endswith(": done after 1.3 s, version 3 → 4, 28,130 rows written")


def test_finished_step_without_a_commit_logs_the_unchanged_version():
    assert execution_log.step_ended(STEP, seconds=0.1, versions=(4, 4)).message.endswith("version 4, as before")


def test_finished_step_of_a_new_table_logs_only_the_new_version():
    assert execution_log.step_ended(STEP, versions=(None, 0)).message.endswith(": done, version 0")


def test_finished_step_without_a_statement_logs_no_change():
    assert execution_log.step_ended(STEP, silent=True).message.endswith(
        "recorded; nothing was made or changed in the warehouse"
    )


def test_failed_step_logs_code_and_message_as_an_error():
    line = execution_log.step_ended(
        STEP, seconds=2, error={"code": "VALUES_DO_NOT_FIT", "message": "3 values\ndo not fit"}
    )
    assert (line.level, line.step) == (ERROR, 1)
    assert line.message.endswith("failed after 2.0 s, VALUES_DO_NOT_FIT: 3 values do not fit")


def test_error_without_a_message_logs_that_no_reason_was_given():
    assert execution_log.error_said({}) == "no reason was given"


def test_claimed_attempt_logs_the_worker_and_three_leases():
    assert execution_log.claimed(2, "w1", ["c", "b", "a", "d", "e"]).message == (
        "attempt 2: taken up by worker w1; leases taken: a, b, c and 2 more"
    )


def test_resume_logs_the_numbers_of_finished_and_remaining_steps():
    assert (
        execution_log.resumed("olga", 1, 4).message
        == "resumed by olga: 1 step done before will not be repeated, 4 left"
    )
    assert execution_log.resumed("olga", 0, 5).message == "resumed by olga: no step was done before, 5 left"


def test_ended_execution_logs_state_duration_error_and_leases():
    error = {"code": "STEP_FAILED", "message": "no room"}
    assert execution_log.ended("failed", 12, error, 2) == Line(
        "failed after 12.0 s: STEP_FAILED: no room; 2 leases given back", ERROR
    )
    assert execution_log.ended("succeeded", 12, None, 1).level == INFO
    assert execution_log.ended("canceled", 12, None, 1).level == WARNING
