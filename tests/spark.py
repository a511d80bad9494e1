"""One Spark session for all tests that need one: the runner's own, on a warehouse that is thrown away."""

import os
import sys
from pathlib import Path

import pytest

from loader.spark.runtime.session import RunnerConfig, start_session

_JAVA_OPTIONS = (
    # Tests run each plan a few times: compiling it well takes longer than running it.
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=400m"
    # Two sessions share two cores, so threads that collect garbage beside each other gain nothing.
    " -XX:+UseSerialGC"
    # Hadoop starts a program for every file whose mode it sets.
    " -Djdk.lang.Process.launchMechanism=VFORK"
)


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A warm session as the runner starts it, stopped when the last test is done."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = start_session(
        RunnerConfig(
            warehouse=str(tmp_path_factory.mktemp("warehouse")),
            master="local[2]",
            java_options=_JAVA_OPTIONS,
            source_roots=("/",),
            jars=os.environ.get("ELEVATA_SPARK_JARS") or str(Path(sys.prefix) / "spark-jars"),
        )
    )
    yield session
    session.stop()


def by_night(*values, id: str | None = None):
    """Return parameters whose test only make test-nightly runs: by day another of its kind is enough."""
    return pytest.param(*values, id=id, marks=pytest.mark.nightly)


def held_in_memory(spark) -> list[str]:
    """Frames that are kept; what Delta keeps of its tables' logs is its own affair."""
    kept = spark.sparkContext._jsc.getPersistentRDDs()
    return [name for rdd in kept for name in [str(kept[rdd].name())] if not name.startswith("Delta Table State")]
