"""Delta Lake's Java side, fetched once so that starting Spark needs no network.

Spark's own resolver works out the dependencies; its cache is a throw-away folder, and the jars it
found are kept in the virtual environment. Left out are those that Spark ships itself: Spark's win
when both are there, so theirs would only make every start slower.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from elevata.bootstrap.console import Problem, run
from elevata.bootstrap.environment import RUNTIME
from elevata.bootstrap.java import java_home
from elevata.bootstrap.places import SPARK_JARS, VENV
from elevata.bootstrap.stamps import digest, once

SCALA = "2.13"
DELTA = "delta-spark"
SPARK = "pyspark"


def spark_jars() -> str:
    """Keep the jars that belong to the pinned versions of Spark and Delta."""
    return once("spark-jars", digest(coordinate()), _fetch, results=[SPARK_JARS])


def coordinate() -> str:
    """Delta's coordinate, from the pins: its jar is published per minor version of Spark."""
    pins = dict(line.split("==", 1) for line in RUNTIME.read_text().splitlines() if "==" in line and line[0] != "#")
    spark = ".".join(pins[SPARK].split(".")[:2])
    return f"io.delta:{DELTA}_{spark}_{SCALA}:{pins[DELTA].strip()}"


def _fetch() -> str:
    with tempfile.TemporaryDirectory(prefix="elevata-jars-") as folder:
        nothing = Path(folder, "nothing.py")
        nothing.write_text("")
        run(
            [
                VENV / "bin" / "spark-submit",
                *("--packages", coordinate()),
                *("--conf", f"spark.jars.ivy={folder}/ivy"),
                nothing,
            ],
            failure=f"Spark's jars for {coordinate()} could not be fetched",
            env=_spark_environment(),
        )
        found = sorted(Path(folder, "ivy", "jars").glob("*.jar"))
        if not found:
            raise Problem(f"Spark found no jar for {coordinate()}", "run make setup again")
        new = beyond(found, (_spark_home() / "jars").glob("*.jar"))
        _keep(new)
    return f"{len(new)} jars of {coordinate()}"


def beyond(resolved: Iterable[Path], shipped: Iterable[Path]) -> list[Path]:
    """The resolved jars whose artifact Spark does not ship in any version.

    The resolver writes ``<organisation>_<artifact>-<version>.jar``, Spark without the organisation.
    """
    own = {_artifact(jar.name) for jar in shipped}
    return [jar for jar in resolved if _artifact(jar.name.split("_", 1)[1]) not in own]


def _artifact(file_name: str) -> str:
    return re.sub(r"-\d[^-]*(-.*)?\.jar$", "", file_name)


def _spark_home() -> Path:
    return next(VENV.glob("lib/python*/site-packages/pyspark"))


def _spark_environment() -> dict[str, str]:
    """Spark must be the one of this environment, whatever else the machine has set up."""
    environment = {
        "SPARK_HOME": str(_spark_home()),
        "PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    home = java_home()
    return {**environment, "JAVA_HOME": home} if home else environment


def _keep(jars: list[Path]) -> None:
    """Put the jars in place as one move, so that there is never half a set."""
    pending = SPARK_JARS.with_name(SPARK_JARS.name + ".new")
    shutil.rmtree(pending, ignore_errors=True)
    pending.mkdir()
    for jar in jars:
        shutil.copy(jar, pending)
    shutil.rmtree(SPARK_JARS, ignore_errors=True)
    pending.rename(SPARK_JARS)
