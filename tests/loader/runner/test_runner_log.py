"""Output of the runner and its JVM: structured log lines, attributed to a run, without secrets."""

import json
import logging
import os
import threading
from pathlib import Path

import pytest

from elevata.core.log_context import about
from loader.contract.protocol import Said
from loader.runner.child_process import ChildOutput, Lines
from loader.runner.runner_log import LogFile, Subjects
from tests.loader.processes import wait_until
from tests.loader.runner.test_supervisor import OBSERVE, READ, finished

CANARY = "canary-source-8h2k"
JAVA = "26/01/31 12:00:00 {} TaskSetManager: {}"


@pytest.fixture
def planted_secret(monkeypatch) -> None:
    monkeypatch.setenv("ELEVATA_SOURCE_ERP_PASSWORD", CANARY)


@pytest.fixture
def json_logs(settings) -> None:
    settings.LOG_FORMAT = "json"
    settings.LOGGING = settings.LOGGING | {"formatters": {"lines": {"()": "elevata.ops.logging.JsonLines"}}}


def text_of(runner) -> str:
    """Return the whole log after the runner is closed."""
    runner.close()
    return runner.log_file.read_text()


def lines_of(runner) -> list[dict]:
    return [json.loads(line) for line in text_of(runner).splitlines()]


def ask(runner, script, **instructions) -> None:
    script.tell(**instructions)
    finished(runner.request("observe", OBSERVE))


# --- format of lines --------------------------------------------------------------------------------


def test_a_line_of_the_jvm_is_one_json_object_with_its_level_and_logger(json_logs, runner, script):
    ask(runner, script, print=[JAVA.format("WARN", "Lost task 0.0")])
    (line,) = lines_of(runner)
    assert (line["level"], line["logger"], line["message"]) == ("warning", "spark.TaskSetManager", "Lost task 0.0")


def test_a_trace_belongs_to_the_line_above_it(json_logs, runner, script):
    trace = ["java.io.IOException: no space", "\tat java.base/Files.write(Files.java:1)", "Caused by: x"]
    ask(runner, script, print=[JAVA.format("ERROR", "Aborted"), *trace, JAVA.format("WARN", "Next")])
    first, second = lines_of(runner)
    assert first["message"].splitlines() == ["Aborted", *trace]
    assert second["message"] == "Next"


def test_line_without_a_log_prefix_is_logged_as_info(json_logs, runner, script):
    ask(runner, script, print=["Picked up JAVA_TOOL_OPTIONS: -Xmx1g"])
    (line,) = lines_of(runner)
    assert (line["level"], line["message"]) == ("info", "Picked up JAVA_TOOL_OPTIONS: -Xmx1g")


def test_a_record_of_the_runner_keeps_its_logger_and_its_trace(json_logs, runner, script):
    ask(runner, script, log="the disk is full")
    (line,) = lines_of(runner)
    assert (line["level"], line["logger"]) == ("error", "loader.engine.loads.load")
    assert line["message"] == "it failed: the disk is full"
    assert "ConnectionError: the disk is full" in line["exc_info"]


def test_log_lines_are_plain_without_the_json_format(runner, script):
    ask(runner, script, print=[JAVA.format("WARN", "Lost task 0.0")])
    assert text_of(runner).endswith("WARNING spark.TaskSetManager runner_request=observe-1 Lost task 0.0\n")


def test_spark_warnings_are_passed_to_python_logging(json_logs, runner, script, caplog):
    with caplog.at_level(logging.WARNING, "loader.engine"):
        ask(runner, script, print=[JAVA.format("WARN", "Lost task 0.0"), JAVA.format("INFO", "Starting task")])
        runner.close()
    assert [record.getMessage() for record in caplog.records if record.name.startswith("spark.")] == ["Lost task 0.0"]


# --- attribution to runs ----------------------------------------------------------------------------


def test_log_lines_contain_the_run_and_user_of_their_request(json_logs, runner, script):
    script.tell(print=[JAVA.format("WARN", "Lost task 0.0")], log="no space")
    with about(run_id="nightly-7", person_id=3):
        finished(runner.request("observe", OBSERVE))
    lines = lines_of(runner)
    assert [(line["run_id"], line["person_id"]) for line in lines] == [("nightly-7", 3)] * 2


def test_log_records_of_concurrent_requests_name_their_own_run(json_logs, runner, script):
    script.tell(hang_on=["read"], log="no space")
    with about(run_id="one"):
        first = runner.request("read", READ)
    with about(run_id="two"):
        second = runner.request("read", READ)
    wait_until(lambda: len(script.seen("read")) == 2)
    first.cancel(), second.cancel()
    finished(first), finished(second)
    assert sorted((line["runner_request"], line["run_id"]) for line in lines_of(runner)) == [
        ("read-1", "one"),
        ("read-2", "two"),
    ]


def test_thread_name_identifies_the_run_of_a_request():
    subjects = Subjects()
    subjects.begin("load-1", {"run_id": "one"})
    subjects.begin("load-2", {"run_id": "two"})
    assert subjects.of(Said("x", thread="load-2/dataset_0"))["run_id"] == "two"


def test_spark_line_names_no_run_while_several_are_active():
    subjects = Subjects()
    subjects.begin("load-1", {"run_id": "one"})
    assert subjects.of(Said("x"))["run_id"] == "one"
    subjects.begin("load-2", {"run_id": "two"})
    assert subjects.of(Said("x")) == {}


def test_a_value_that_spark_quotes_is_not_logged(json_logs, runner, script):
    message = "SparkNumberFormatException: [CAST_INVALID_INPUT] The value 'Ada' cannot be cast. SQLSTATE: 22018"
    ask(runner, script, print=[JAVA.format("ERROR", message)], log=message)
    written = text_of(runner)
    assert "Ada" not in written
    assert written.count("[CAST_INVALID_INPUT] [message left out] SQLSTATE: 22018") >= 2


# --- secrets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", ["json", "plain"])
@pytest.mark.parametrize(
    "output",
    [
        {"print": [JAVA.format("ERROR", f"password {CANARY} refused")]},
        {"print": [JAVA.format("ERROR", "refused"), f"org.postgresql.PSQLException: {CANARY}", f"\tat x({CANARY})"]},
        {"print": [f"Picked up -Dpassword={CANARY}"]},
        {"print": ['{"elevata_log": "' + CANARY]},
        {"print": [f"jdbc:postgresql://reader:{CANARY}@db/erp"]},
        {"log": f"connecting with {CANARY}"},
    ],
)
def test_secret_is_removed_from_the_log_and_stderr(
    planted_secret, settings, request, runner, script, style, output, caplog, capfd
):
    if style == "json":
        request.getfixturevalue("json_logs")
    ask(runner, script, **output)
    written = text_of(runner)
    assert "[secret]" in written
    assert "canary" not in written
    assert "canary" not in capfd.readouterr().err


def test_multi_line_secret_is_removed_from_the_log(monkeypatch, runner, script):
    key = "-----BEGIN PRIVATE KEY-----\nMIICdQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----"
    monkeypatch.setenv("ELEVATA_SOURCE_LAKE_KEY", key)
    ask(runner, script, print=[JAVA.format("ERROR", "bad key"), *key.splitlines()])
    written = text_of(runner)
    assert "MIICdQ" not in written
    assert "hkiG9w" not in written


# --- reading ----------------------------------------------------------------------------------------


def log_lines_of(write) -> list[str]:
    """Return the log lines for the bytes that ``write`` writes into the pipe."""
    reading, writing = os.pipe()
    messages: list[str] = []
    output = ChildOutput(reading, lambda line: messages.append(line.message))
    with os.fdopen(writing, "wb", buffering=0) as pipe:
        write(pipe, messages)
    output.join(5)
    return messages


def test_last_line_without_a_line_end_is_logged():
    assert log_lines_of(lambda pipe, _said: pipe.write(b"Killed")) == ["Killed"]


def test_line_is_logged_while_the_child_process_continues():
    def write(pipe, messages):
        pipe.write(JAVA.format("WARN", "slow").encode() + b"\n")
        wait_until(lambda: messages == ["slow"])

    assert log_lines_of(write) == ["slow"]


def test_overlong_line_is_left_out_and_the_next_line_is_kept():
    lines = Lines()
    texts = [line for _ in range(10) for line in lines.of(b"x" * 65_536)] + list(lines.of(b"\nnext\n"))
    assert texts == ["[a line of 655360 bytes is left out]", "next"]


def test_lines_that_make_a_record_too_long_are_left_out():
    def write(pipe, _said):
        pipe.write(JAVA.format("ERROR", "failed").encode() + b"\n" + (b"x" * 100_000 + b"\n") * 5)

    (record,) = log_lines_of(write)
    assert len(record) < 256 * 1024
    assert record.endswith("\n[3 lines left out]")


def test_error_while_writing_a_line_does_not_stop_the_reader(caplog):
    messages: list[str] = []

    def broken(line) -> None:
        messages.append(line.message)
        raise OSError("the disk is full")

    reading, writing = os.pipe()
    output = ChildOutput(reading, broken)
    os.write(writing, (JAVA.format("WARN", "one") + "\n" + JAVA.format("WARN", "two") + "\n").encode())
    os.close(writing)
    output.join(5)
    assert messages == ["one", "two"]


def test_log_file_on_a_full_disk_is_one_warning(caplog, capsys):
    file, line = LogFile("/dev/full", mode="w", delay=True), logging.makeLogRecord({"msg": "a line"})
    for _ in range(3):
        file.handle(line)
    (warning,) = caplog.messages
    assert warning.startswith("the runner's log /dev/full cannot be written")
    assert "No space left" in warning
    assert "Traceback" not in capsys.readouterr().err


def test_log_file_is_rotated_when_it_exceeds_its_size(runner, script, monkeypatch):
    monkeypatch.setattr(runner._log._file, "maxBytes", 200)
    for number in range(3):
        ask(runner, script, print=[JAVA.format("WARN", f"{number} " + "x" * 100)])
    runner.close()
    files: list[Path] = sorted(runner.log_file.parent.iterdir())
    assert [path.name for path in files] == ["runner.log", "runner.log.1"]


def test_closed_runner_leaves_no_output_thread(runner, script):
    ask(runner, script, print=["one"])
    runner.close()
    wait_until(lambda: not [thread for thread in threading.enumerate() if thread.name == "runner-output"])
