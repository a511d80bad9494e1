"""Messages about failures: the cause, the path and the remedy."""

import pytest

from loader.domain.spark_failures import Thrown, cause_of, cause_of_death, worker_accident
from loader.engine.java_errors import accident

SPARK = Thrown("org.apache.spark.SparkException", "Job aborted due to stage failure")


@pytest.mark.parametrize(
    ("name", "message", "code", "path"),
    [
        ("java.io.IOException", "No space left on device", "DISK_FULL", ""),
        ("java.io.FileNotFoundException", "/w/t/a.parquet (Read-only file system)", "READ_ONLY", "/w/t/a.parquet"),
        ("java.io.FileNotFoundException", "/w/t/a.parquet (Permission denied)", "NOT_PERMITTED", "/w/t/a.parquet"),
        (
            "java.io.IOException",
            "Mkdirs failed to create file:/w/t/_delta_log",
            "NOT_PERMITTED",
            "file:/w/t/_delta_log",
        ),
        (
            "java.lang.RuntimeException",
            "file:/w/t/a.parquet is not a Parquet file. Expected magic number at tail",
            "BROKEN_FILE",
            "file:/w/t/a.parquet",
        ),
        ("org.apache.hadoop.fs.ChecksumException", "Checksum error: /w/a.csv at 0", "BROKEN_FILE", "/w/a.csv"),
        ("java.io.FileNotFoundException", "File file:/w/a.parquet does not exist", "FILE_MISSING", "file:/w/a.parquet"),
        ("io.delta.exceptions.ConcurrentAppendException", "[DELTA_CONCURRENT_APPEND] moved", "TABLE_MOVED", ""),
        ("DeltaIllegalStateException", "[DELTA_STATE_RECOVER_ERROR] cannot", "TABLE_REFUSED", ""),
        (
            "org.apache.hadoop.fs.s3a.UnknownStoreException",
            "`s3a://gone/w': Bucket does not exist",
            "BUCKET_MISSING",
            "s3a://gone/w",
        ),
        (
            "org.apache.hadoop.fs.s3a.AWSBadRequestException",
            "PUT on w/a.parquet: S3Exception: expired (Service: S3, Status Code: 400):ExpiredToken",
            "CREDENTIALS_EXPIRED",
            "",
        ),
        (
            "java.nio.file.AccessDeniedException",
            "s3a://b/w: getFileStatus on s3a://b/w: S3Exception: null (Service: S3, Status Code: 403)",
            "STORE_REFUSES",
            "s3a://b/w",
        ),
        (  # the answer to a HEAD request has no code, not even for expired credentials
            "org.apache.hadoop.fs.s3a.AWSBadRequestException",
            "getFileStatus on s3a://b/w: S3Exception: Bad Request (Service: S3, Status Code: 400, Request ID: null)",
            "STORE_REFUSES",
            "s3a://b/w",
        ),
        (
            "java.lang.ClassNotFoundException",
            "Class org.apache.hadoop.fs.s3a.S3AFileSystem not found",
            "S3_CLIENT_MISSING",
            "",
        ),
        ("java.lang.OutOfMemoryError", "Java heap space", "OUT_OF_MEMORY", ""),
        ("org.apache.spark.SparkException", "ExecutorLostFailure (executor 1 exited)", "EXECUTOR_LOST", ""),
        ("py4j.protocol.Py4JNetworkError", "Answer from Java side is empty", "SPARK_GONE", ""),
        ("py4j.protocol.Py4JError", "An error occurred while calling o17.sc", "SPARK_GONE", ""),
        ("builtins.ConnectionRefusedError", "[Errno 111] Connection refused", "SPARK_GONE", ""),
    ],
)
def test_known_cause_is_found_inside_an_exception_of_spark(name, message, code, path):
    cause = cause_of("crm.customer", (SPARK, Thrown(name, message)))
    assert (cause.code, cause.file) == (code, path)
    assert cause.message.startswith("crm.customer: ")
    assert cause.hint


def test_path_is_found_in_an_outer_exception():
    outer = Thrown("org.apache.spark.SparkException", "Task failed while writing rows to file:/w/t.")
    cause = cause_of("t", (outer, Thrown("java.io.IOException", "No space left on device")))
    assert cause.message == "t: no space is left on the disk (file:/w/t): No space left on device"


def test_refused_database_connection_is_not_reported_as_loss_of_spark():
    assert cause_of("t", (Thrown("org.postgresql.util.PSQLException", "Connection to db refused"),)) is None
    assert cause_of("t", (Thrown("java.net.ConnectException", "Connection refused"),)) is None


def test_delta_log_folder_in_a_path_is_not_read_as_a_delta_error():
    assert cause_of("t", (Thrown("java.lang.IllegalStateException", "at file:/w/t/_delta_log"),)) is None


def test_unknown_exception_has_no_cause():
    assert cause_of("t", (SPARK, Thrown("java.lang.ArithmeticException", "/ by zero"))) is None


@pytest.mark.parametrize("code", [-9, 137])
def test_a_killed_runner_points_to_memory(code):
    how, hint = cause_of_death(code)
    assert how == "was killed by signal 9 (SIGKILL)"
    assert "memory" in hint


def test_a_crashed_java_points_to_its_error_file():
    assert "hs_err" in cause_of_death(-11)[1]


@pytest.mark.parametrize("code", [3, 52])
def test_out_of_memory_error_names_the_memory_settings(code):
    how, hint = cause_of_death(code)
    assert how == "ran out of memory"
    assert "ELEVATA_READS_MEMORY" in hint


def test_plain_exit_code_is_reported_without_a_hint():
    assert cause_of_death(1) == ("ended with code 1", "")


def test_worker_failure_names_its_cause_and_path():
    refusal = worker_accident(OSError(28, "No space left on device", "/data/logs/runner.log"))
    assert (refusal.code, refusal.file) == ("DISK_FULL", "/data/logs/runner.log")
    assert "Make room there" in refusal.hint


def test_unknown_worker_failure_reports_the_exception_in_one_line():
    refusal = worker_accident(KeyError("a\nb"))
    assert (refusal.code, refusal.message) == ("UNEXPECTED", "KeyError: 'a\\nb'")
    assert "worker's log" in refusal.hint


def test_failed_step_with_a_known_cause_names_the_cause():
    refusal = accident("add_column rawcore.a.b failed", OSError(30, "Read-only file system", "/w"), code="STEP_FAILED")
    assert (refusal.code, refusal.file) == ("READ_ONLY", "/w")
    assert refusal.message.startswith("add_column rawcore.a.b failed: ")


def test_failed_step_with_an_unknown_cause_keeps_its_code():
    refusal = accident("add_column rawcore.a.b failed", ValueError("what\nelse"), code="STEP_FAILED")
    assert (refusal.code, refusal.message) == ("STEP_FAILED", "add_column rawcore.a.b failed: what")
