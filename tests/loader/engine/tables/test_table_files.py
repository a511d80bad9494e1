"""Failures of reads of an earlier version of a table."""

import pytest
from pyspark.errors import PySparkException

from loader.engine.tables.table_files import misses_version


@pytest.mark.parametrize(
    ("message", "missing"),
    [
        ("[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file a.parquet.", True),
        ("[DELTA_LOG_FILE_NOT_FOUND] Unable to retrieve the delta log files", True),
        ("java.io.FileNotFoundException: File deletion_vector_1.bin does not exist", True),
        ("[DIVIDE_BY_ZERO] Division by zero.", False),
    ],
)
def test_misses_version_recognises_errors_of_removed_logs_and_files(message, missing):
    assert misses_version(PySparkException(message)) is missing
