"""Random sequences of killed, repeated and disturbed loads, compared with a model in plain Python.

Between and during loads another writer deletes rows, compacts, purges, vacuums and restores. Every load ends
correctly, or is refused and leaves the tables unchanged; nothing is lost or doubled without a message.
"""

import importlib
import os
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from loader.contract.manifest.maintenance import AcceptManifest
from loader.engine.maintenance.acceptance import accept
from loader.engine.maintenance.context import MaintenanceContext
from tests.loader.harness import Dataset, finished

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("commit_path")]

# A step takes some 4 s: one sequence by day, with a disturbance at each place, and many at night.
EXAMPLES = int(os.environ.get("ELEVATA_DISTURBED_EXAMPLES", "0"))
KEYS = range(1, 6)
BEFORE_HISTORY, BEFORE_RAWCORE = (
    "loader.engine.historization.history.write_history",
    "loader.engine.historization.rawcore.write_rawcore",
)

snapshots = st.dictionaries(st.sampled_from(KEYS), st.sampled_from("abc"), min_size=1)
between = st.sampled_from(["nothing", "delete", "delete rawcore", "compact", "vacuum", "restore", "lose checksums"])
during = st.sampled_from(["nothing", "delete", "delete rawcore", "kill before history", "kill before rawcore"])
steps = st.lists(st.tuples(snapshots, between, during), min_size=3, max_size=5)

BY_DAY = [
    ({1: "a", 2: "b", 3: "c"}, "nothing", "kill before history"),
    ({1: "b", 2: "b", 4: "a"}, "compact", "delete"),
    ({1: "b", 3: "a", 4: "c"}, "delete rawcore", "kill before rawcore"),
]

Version = tuple[int, str, str, str | None]  # key, value, start, end


@dataclass
class Model:
    """Expected content of the history, now and at each table version left by a load."""

    versions: list[Version] = field(default_factory=list)
    left: dict[int, tuple[list[Version], int]] = field(default_factory=dict)  # by table version: versions, run

    def load(self, rows: dict[int, str], at: str) -> None:
        open_ = {key: value for key, value, _, end in self.versions if end is None}
        ends = {key for key, value in open_.items() if rows.get(key) != value}
        self.versions = [(k, v, start, at if end is None and k in ends else end) for k, v, start, end in self.versions]
        self.versions += [(key, value, at, None) for key, value in rows.items() if open_.get(key) != value]

    def delete(self, key: int) -> None:
        self.versions = [version for version in self.versions if version[0] != key or version[3] is not None]

    @property
    def current(self) -> dict[int, str]:
        return {key: value for key, value, _, end in self.versions if end is None}


@dataclass
class World:
    """Tables, model, and the number of the newest run known as applied."""

    item: Dataset
    model: Model = field(default_factory=Model)
    applied: int | None = None
    day: int = 0
    ran: list[str] = field(default_factory=list)

    def foreign(self, statement: str, spec: str = "history_spec") -> None:
        table = self.item.table(getattr(self.item, spec))
        self.item.spark.newSession().sql(statement.format(table=table.sql_name))

    # --- another writer -----------------------------------------------------------------------

    def disturb(self, deed: str) -> None:
        if deed == "delete" and self.model.current:
            key = min(self.model.current)
            self.foreign(f"DELETE FROM {{table}} WHERE id = {key} AND version_ended_at IS NULL")
            self.model.delete(key)
        elif deed == "delete rawcore":
            # The engine compares with the history; only check_history detects errors in rawcore alone.
            self.foreign("DELETE FROM {table} WHERE false", "rawcore_spec")
        elif deed == "compact":
            self.foreign("OPTIMIZE {table}")
            self.foreign("REORG TABLE {table} APPLY (PURGE)")
        elif deed == "vacuum":
            self.foreign("VACUUM {table}")
        elif deed == "lose checksums":
            for path in Path(self.item.table(self.item.history_spec).location, "_delta_log").glob("*.crc"):
                path.unlink()
            self.item.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        elif deed == "restore" and self.model.left:
            version = min(self.model.left)
            self.foreign(f"RESTORE TABLE {{table}} TO VERSION AS OF {version}")
            self.model.versions, newest = deepcopy(self.model.left[version])
            if self.applied is not None and newest < self.applied:
                self.expect_refusal("TABLE_BEHIND")
                self.accept(newest)

    def accept(self, newest: int) -> None:
        self.item.sequence += 1
        run = f"accept-{self.item.sequence}"
        manifest = self.item.manifest(Path("none"), at=self.at, run_id=run)
        context = MaintenanceContext.of(self.item.spark, self.item.warehouse, run, lambda _: None)
        accept(context, AcceptManifest(run, manifest.rawcore[0]))
        assert context.tables[self.item.history_spec.qualified_name]["held"] == newest
        self.applied = newest

    # --- loads --------------------------------------------------------------------------------

    @property
    def at(self) -> str:
        return f"2024-01-{self.day:02}T00:00:00Z"

    def attempt(self, rows: dict[int, str], run: str) -> tuple[str, dict]:
        delivered = [{"id": key, "v": value} for key, value in rows.items()]
        manifest = self.item.manifest(self.item.deliver(delivered), at=self.at, run_id=run)
        known = tuple(replace(load, newest_applied=self.applied) for load in manifest.rawcore)
        status, events = self.item.attempt(replace(manifest, rawcore=known))
        return status, finished(events, self.item.state.key)

    def expect_refusal(self, code: str) -> None:
        before = self.item.history()
        self.day += 1
        self.item.sequence += 1
        status, event = self.attempt({1: "z"}, f"refused-{self.item.sequence}")
        assert (status, event["error"]["code"]) == ("failed", code)
        assert self.item.history() == before

    def load(self, rows: dict[int, str], meanwhile: str) -> None:
        self.day += 1
        self.item.sequence += 1
        run = f"run-{self.item.sequence}"
        if meanwhile.startswith("kill"):
            target = BEFORE_HISTORY if meanwhile.endswith("history") else BEFORE_RAWCORE
            with _at_first_call(target, _die):
                assert self.attempt(rows, run)[0] == "failed"
            status, event = self.attempt(rows, run)
        else:
            target = BEFORE_RAWCORE if meanwhile.endswith("rawcore") else BEFORE_HISTORY
            with _at_first_call(target, lambda: self.disturb(meanwhile)):
                status, event = self.attempt(rows, run)
        assert status == "succeeded", event
        self.model.load(rows, self.at)
        self.applied = self.item.sequence
        version = self.item.table(self.item.history_spec).version()
        self.model.left[version] = deepcopy((self.model.versions, self.item.sequence))

    def check(self) -> None:
        versions = [(row["id"], row["v"], row["started"], row["ended"]) for row in self.item.history()]
        assert sorted(versions, key=str) == sorted(self.model.versions, key=str)
        assert {row["id"]: row["v"] for row in self.item.current()} == self.model.current


def _die() -> None:
    raise SystemError("killed")


def _at_first_call(target: str, deed: Callable[[], None]):
    module, _, name = target.rpartition(".")
    real, calls = getattr(importlib.import_module(module), name), []

    def wrapped(*arguments, **named):
        calls.append(target)
        if len(calls) == 1:
            deed()
        return real(*arguments, **named)

    return patch(target, wrapped)


@pytest.mark.nightly
@pytest.mark.takes(seconds=20)
@settings(
    max_examples=max(EXAMPLES, 1),
    deadline=None,
    phases=tuple(Phase) if EXAMPLES else (Phase.explicit,),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(sequence=steps)
@example(sequence=BY_DAY)
def test_disturbed_loads_give_the_history_of_the_python_model(spark, tmp_path_factory, sequence):
    item = Dataset(spark, tmp_path_factory.mktemp("disturbed"))
    item.given()
    world = World(item)
    for rows, before, meanwhile in sequence:
        world.disturb(before)
        world.load(rows, meanwhile)
        world.check()
