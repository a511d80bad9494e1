"""One benchmark case: engines load alternately, each into its own history of the required depth.

An *entry* is one line of the result. Entries alternate round by round; the first round is not counted. The
engine's history is restored before every load, so all loads of an entry do the same work. After the last one
the history is compared with the expected one.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

from bench.history.folders import link_copy, remove
from bench.history.plan import Plan, load_time
from bench.processes.environment import peers_python, product_python
from bench.processes.session import peer_settings, product_settings
from bench.processes.workers import Failed, Worker
from bench.runner import Run, say
from elevata.bootstrap.places import SPARK_JARS
from loader.domain.spark_settings import SHUFFLE_PARTITIONS

PEERS = ("dbt_snapshot", "koheesio", "datacoolie", "small_tables_dbt_snapshot")
KEYED, SOURCE = "keyed", "source"
MAIN = "main"


@dataclass(frozen=True)
class Entry:
    """One line of the result: an engine, its loading method, and the depth of its history.

    ``variant`` names the plan of the next snapshot, ``how`` the engine's loading method, ``kind`` the form of
    the snapshot, ``label`` the saved history to load into.
    """

    name: str
    engine: str
    depth: int
    variant: str = MAIN
    how: str = "load"
    kind: str = KEYED
    label: str = ""

    @property
    def restore(self) -> str:
        return self.label or str(self.depth)

    @property
    def building(self) -> dict[str, str]:
        """Loading method and form of the snapshots of the loads that build the history."""
        return {"how": "whole", "kind": SOURCE} if self.how == "whole" and not self.label else {}


class Bench:
    """Shared state of a run's cases: snapshots, warm engines, built histories.

    As a context manager it ends the engines and deletes the data unless ``keep`` is set. Engines run on the Spark
    cluster ``master``, by default each in its own process.
    """

    def __init__(self, plans: dict[str, Plan], work: Path, *, keep: bool = False, master: str = "") -> None:
        self.plans, self.work, self._keep, self._master = plans, work, keep, master
        self.start_options: dict[str, dict] = {}
        self._snapshots: dict[tuple[str, int], dict[str, str]] = {}
        self._workers: dict[str, Worker] = {}
        self._built: dict[str, int] = {}
        self._expected: dict[tuple[str, int], dict] = {}
        self._copies = 1
        self._broken: dict[str, Failed] = {}
        remove(work)
        work.mkdir(parents=True)

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *_) -> None:
        for name in list(self._workers):
            self.close(name)
        if not self._keep:
            remove(self.work)

    def worker(self, engine: str) -> Worker:
        """Return the engine's warm process, started at the first call."""
        if engine not in self._workers:
            say(f"starting {engine}")
            peer = engine in PEERS
            folder = self.work / engine
            settings = product_settings(folder / "catalog", SPARK_JARS)
            if self._master and engine != "snapshots":
                settings["spark.master"] = self._master
                settings.pop(SHUFFLE_PARTITIONS)  # the product fits them to the cluster
            self._workers[engine] = Worker(
                engine,
                peers_python() if peer else product_python(),
                self.work.parent / "logs" / f"{engine}.log",
                settings=peer_settings(settings) if peer or engine == "four_step" else settings,
                folder=str(folder),
                **self.start_options.get(engine, {}),
            )
        return self._workers[engine]

    def close(self, engine: str) -> None:
        """End the engine's process and delete its histories."""
        if engine in self._workers:
            self._workers.pop(engine).close()
        self._built.pop(engine, None)
        if not self._keep and engine != "snapshots":
            remove(self.work / engine)

    def make(self, variant: str, loads: range, *, changed_only: bool = False) -> None:
        """Write the missing snapshots."""
        for load in loads:
            if (variant, load) not in self._snapshots:
                say(f"snapshot {load} of {variant}")
                made = self.worker("snapshots").ask(
                    "make",
                    plan=asdict(self.plans[variant].upto(load)),
                    variant=variant,
                    load=load,
                    changed_only=changed_only,
                )
                self._snapshots[variant, load] = made

    def snapshot(self, variant: str, load: int, kind: str) -> str:
        """Return the path of a snapshot. Before the last load, all variants share the main one."""
        return (self._snapshots.get((variant, load)) or self._snapshots[MAIN, load])[kind]

    def expect(self, variant: str, load: int) -> None:
        """Compute and store the correct history after this load."""
        if (variant, load) not in self._expected:
            paths = [self.snapshot(variant, number, KEYED) for number in range(load + 1)]
            plan = asdict(self.plans[variant].upto(load))
            self._expected[variant, load] = self.worker("snapshots").ask("expect", plan=plan, snapshots=paths)

    def expected(self, variant: str, load: int) -> dict:
        """Return the digest an engine must end with, summed over all copies of the table."""
        expected = self._expected[variant, load]
        return {
            "versions": expected["versions"] * self._copies,
            "open": expected["open"] * self._copies,
            "checksum": str(int(expected["checksum"]) * self._copies),
        }

    def spread(self, names: list[str]) -> None:
        """Copy every snapshot for each of these tables; ``{}`` in its path stands for the table's name."""
        for place, kinds in self._snapshots.items():
            for kind, path in kinds.items():
                template = self.work / "sources" / "{}" / f"load-{place[1]}" / kind
                for name in names:
                    link_copy(Path(path), Path(str(template).replace("{}", name)))
                kinds[kind] = str(template)
        self._copies = len(names)

    def load(self, entry: Entry, load: int, *, restore: str | None) -> dict:
        """Run one load of the entry's kind on its engine."""
        return self.worker(entry.engine).ask(
            "run",
            restore=restore,
            how=entry.how,
            load=load,
            at=load_time(load),
            snapshot=self.snapshot(entry.variant, load, entry.kind),
            before=self.snapshot(MAIN, load - 1, KEYED) if load else None,
        )

    def build(self, engine: str, depth: int, *, how: str = "load", kind: str = KEYED) -> None:
        """Build the engine's saved histories up to ``depth`` real loads after the first.

        Raise Failed, also at every later call, since a failed load leaves no usable history.
        """
        entry = Entry(engine, engine, depth, how=how, kind=kind)
        built = self._built.get(engine, -1)
        if built >= depth:
            return
        if engine in self._broken:
            raise self._broken[engine]
        try:
            if built >= 0:
                self.worker(engine).ask("restore", label=str(built))
            for load in range(built + 1, depth + 1):
                say(f"{engine}: load {load} of {depth}, to build its history")
                self.load(entry, load, restore=None)
                self.worker(engine).ask("keep_house")
                self.worker(engine).ask("save", label=str(load))
                self._built[engine] = load
        except Failed as failed:
            self._broken[engine] = failed
            raise


def run_case(run: Run, bench: Bench, entries: list[Entry], rounds: int, case: str = "") -> None:
    """Run the entries alternately and record their costs as sides of the case; entries that are wrong before are out.

    An engine with a wrong history is measured like the others.
    """
    sides = {entry.name: f"{case}: {entry.name}" if case else entry.name for entry in entries}
    out = {name for name, side in sides.items() if side in run.wrong}
    for number in range(rounds + 1):
        turn = number % len(entries)
        for entry in entries[turn:] + entries[:turn]:
            if entry.name in out:
                continue
            side = sides[entry.name]
            try:
                done = bench.load(entry, entry.depth + 1, restore=entry.restore)
                if number:
                    run.record(side, (done["seconds"], done["cpu_seconds"]))
                if number in (0, rounds):
                    digest = bench.worker(entry.engine).ask("digest")
                    reason = difference(digest, bench.expected(entry.variant, entry.depth + 1))
                    run.wrong |= {side: reason} if reason else {}
            except Failed as failed:
                run.wrong[side] = f"failed: {failed}"
                out.add(entry.name)


def difference(measured: dict, expected: dict) -> str | None:
    """Return a description of the differences from the expected history; None if there are none."""
    parts = [
        f"{measured[what]} {words}, should be {expected[what]}"
        for what, words in (("versions", "versions"), ("open", "open versions"))
        if measured[what] != expected[what]
    ]
    if not parts and measured["checksum"] != expected["checksum"]:
        parts = ["the same number of versions, but other keys, intervals or values"]
    return ": ".join(filter(None, (measured.get("shortcoming"), "; ".join(parts)))) if parts else None
