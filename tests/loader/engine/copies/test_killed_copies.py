"""Copies to PostgreSQL whose process is killed at random moments, and that are repeated."""

import os
import pickle
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest

from loader.contract.manifest.copies import CopyManifest
from loader.domain.copies import content_query
from loader.engine.session import RunnerConfig
from metadata.domain.copies import BESIDE, CHANGES, REPLACE
from tests.fixtures.source_database import own_schema
from tests.loader.engine.copies.copied_dataset import Copied

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.nightly, pytest.mark.takes(seconds=900)]

KILLS = 20
ROWS = 10_000
# An index and a view make the swap longer.
OBJECTS = """
CREATE INDEX item_v ON mart.item (v);
CREATE INDEX item_both ON mart.item (v, id);
CREATE VIEW mart.over AS SELECT v, count(*) AS n FROM mart.item GROUP BY v;
GRANT SELECT ON mart.item TO PUBLIC
"""
WRITING, SWAPPING = "writing", "swapping"


@pytest.fixture
def database() -> Iterator[psycopg.Connection]:
    with own_schema("mart") as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        try:
            yield connection
        finally:
            connection.execute("DROP TABLE IF EXISTS public.elevata_copies")


@dataclass
class CopyingProcess:
    """Process that performs a copy run, with the moments of its phases."""

    process: subprocess.Popen
    started: dict[str, float]

    @classmethod
    def of(cls, item: Copied, manifest: CopyManifest) -> "CopyingProcess":
        config = RunnerConfig(
            warehouse=item.warehouse,
            master="local[2]",
            driver_memory="900m",
            source_roots=("/",),
            source_hosts=("127.0.0.1",),
            jars=os.environ.get("ELEVATA_SPARK_JARS") or str(Path(sys.prefix) / "spark-jars"),
        )
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.loader.engine.copies.copying_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        process.stdin.write(pickle.dumps((config, manifest)))
        process.stdin.close()
        return cls(process, {})

    def wait_for(self, phase: str) -> None:
        """Read lines until the phase begins, or the run has ended."""
        for line in self.process.stdout:
            word = line.decode().split()[0]
            self.started[word] = time.monotonic()
            if word in (phase, "ended"):
                return
        raise AssertionError(f"the process ended before {phase}, after {list(self.started)}")

    def kill(self) -> None:
        """Kill the process with its Java machine."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


def rows_of(number: int) -> list[dict]:
    """Return the rows of a version; half of them change with each."""
    return [{"id": n, "v": f"{n % 100}-{number if n % 2 else 0}"} for n in range(ROWS + number)]


def content(database: psycopg.Connection) -> tuple[int, str, int]:
    """Return number and checksum of the rows, and the version that ``elevata_copies`` has."""
    count, checksum = database.execute(content_query("mart.item")).fetchone()
    version, registered = database.execute("SELECT version, checksum FROM elevata_copies").fetchone()
    assert (str(checksum), database.execute("SELECT sum(n) FROM mart.over").fetchone()) == (registered, (count,))
    return count, str(checksum), version


def leftover_tables(database: psycopg.Connection) -> list[str]:
    query = "SELECT relname FROM pg_catalog.pg_class WHERE starts_with(relname, %s)"
    rows = [name for (name,) in database.execute(query, [BESIDE]).fetchall()]
    indexes = database.execute("SELECT count(*) FROM pg_indexes WHERE tablename = 'item'").fetchone()
    granted = database.execute("SELECT has_table_privilege('public', 'mart.item', 'SELECT')").fetchone()
    assert (indexes, granted) == ((2,), (True,))
    return rows


def test_copies_killed_at_random_moments_leave_the_old_or_the_new_rows(spark, tmp_path, database):
    item = Copied(spark, tmp_path).given((rows_of(0), "2024-01-01T00:00:00Z"))
    item.copy(item.target())
    database.execute(OBJECTS)
    item.load(rows_of(1), at="2024-01-02T00:00:00Z")
    seconds = durations(item)
    outcomes: Counter[tuple[str, str]] = Counter()
    for number in range(2, KILLS + 2):
        old = content(database)
        item.load(rows_of(number), at=f"2024-02-{number:02}T00:00:00Z")
        mode = CHANGES if number % 4 == 3 else REPLACE
        phase = WRITING if mode == CHANGES or number % 2 else SWAPPING
        copying = CopyingProcess.of(item, manifest_of(item, mode))
        copying.wait_for(phase)
        time.sleep(random.uniform(0, seconds[phase]))
        copying.kill()
        rows = content(database)
        result = item.copy(item.target(mode=mode))
        new = content(database)
        assert result["status"] == ("unchanged" if rows == new else "copied"), result
        assert rows in (old, new), (phase, old, rows, new)
        assert new[0] == ROWS + number
        assert leftover_tables(database) == []
        outcomes[f"{mode}, {phase}", "new" if rows == new else "old"] += 1
    print(f"{KILLS} kills: {dict(outcomes)}")


def manifest_of(item: Copied, mode: str) -> CopyManifest:
    target = replace(item.target(mode=mode), former_table="mart.item", former_shape=item.target().shape)
    return CopyManifest("copy-killed", item.state.key, item.state.qualified_name, (target,))


def durations(item: Copied) -> dict[str, float]:
    """Return the seconds that a process takes to write and to swap."""
    copying = CopyingProcess.of(item, manifest_of(item, REPLACE))
    for phase in (WRITING, SWAPPING, "ended"):
        copying.wait_for(phase)
    copying.kill()
    started = copying.started
    return {WRITING: started[SWAPPING] - started[WRITING], SWAPPING: started["ended"] - started[SWAPPING]}
