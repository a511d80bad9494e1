"""Spark's classes as the JVM has them once they are loaded: a third of every runner's start is saved.

The archive fits one JVM and one set of jars; any other JVM leaves it aside.
"""

from elevata.bootstrap.console import Problem, run
from elevata.bootstrap.environment import RUNTIME
from elevata.bootstrap.java import java_home
from elevata.bootstrap.places import PYTHON, SPARK_JARS
from elevata.bootstrap.stamps import digest, once

ARCHIVE = SPARK_JARS / "classes.jsa"


def class_archive() -> str:
    """Make the archive; without one everything works, only slower, so a JVM that makes none is no failure."""
    jars = sorted(jar.name for jar in SPARK_JARS.glob("*.jar"))
    return once("spark-classes", digest(RUNTIME, java_home() or "", *jars), _make)


def _make() -> str:
    home = java_home()
    try:
        run(
            [PYTHON, "-m", "loader.spark.runtime.classes", SPARK_JARS],
            failure="no archive of Spark's classes",
            env={"JAVA_HOME": home} if home else {},
        )
    except Problem as problem:
        return f"left out: {problem}"
    return f"{ARCHIVE.stat().st_size / 2**20:.0f} MB of classes kept for quicker starts"
