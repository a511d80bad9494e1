"""One case: engines that take turns, each on its own history of the wanted depth.

An *entry* is one line of the result. Entries alternate round by round; the first round is not
counted. Before every load the engine's history is put back, so all loads of an entry do the same.
After the last one the engine's history is compared with the expected one.
"""

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from bench.environment import peers_python, product_python
from bench.folders import link_copy, remove
from bench.plan import Plan, load_time
from bench.session import peer_settings, product_settings
from bench.workers import Failed, Worker
from elevata.bootstrap.places import SPARK_JARS

PEERS = ("dbt_snapshot", "koheesio", "datacoolie", "small_tables_dbt_snapshot")
KEYED, SOURCE = "keyed", "source"
MAIN = "main"


@dataclass(frozen=True)
class Entry:
    """A line of the result: which engine does what to a history of which depth.

    ``variant`` names the plan whose snapshot comes next, ``how`` the engine's method that loads it,
    ``kind`` in which form it is read, ``label`` the saved history it is loaded into.
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


class Bench:
    """Shared state of a run's cases: snapshots, warm engines, built histories.

    As a context manager it ends the engines, and throws the data away unless it is to be kept.
    """

    def __init__(self, plans: dict[str, Plan], work: Path, *, keep: bool = False) -> None:
        self.plans, self.work, self._keep = plans, work, keep
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
        """The engine's warm process, started when it is first asked for."""
        if engine not in self._workers:
            say(f"starting {engine}")
            peer = engine in PEERS
            folder = self.work / engine
            settings = product_settings(folder / "catalog", SPARK_JARS)
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
        """End the engine's process and throw its histories away."""
        if engine in self._workers:
            self._workers.pop(engine).close()
        self._built.pop(engine, None)
        if not self._keep and engine != "snapshots":
            remove(self.work / engine)

    def make(self, variant: str, loads: range, *, changed_only: bool = False) -> None:
        """Write the snapshots that are not there yet."""
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
        """Return the path of a snapshot. Before the last load, all variants are the main one."""
        return (self._snapshots.get((variant, load)) or self._snapshots[MAIN, load])[kind]

    def expect(self, variant: str, load: int) -> None:
        """Work out the history that is right after this load; the result is kept."""
        if (variant, load) not in self._expected:
            paths = [self.snapshot(variant, number, KEYED) for number in range(load + 1)]
            plan = asdict(self.plans[variant].upto(load))
            self._expected[variant, load] = self.worker("snapshots").ask("expect", plan=plan, snapshots=paths)

    def expected(self, variant: str, load: int) -> dict:
        """The digest an engine must end with, for all copies of the table together."""
        one = self._expected[variant, load]
        return {
            "versions": one["versions"] * self._copies,
            "open": one["open"] * self._copies,
            "checksum": str(int(one["checksum"]) * self._copies),
        }

    def spread(self, names: list[str]) -> None:
        """Make every snapshot the source of many tables: a copy for each, ``{}`` in the path for its name."""
        for place, kinds in self._snapshots.items():
            for kind, path in kinds.items():
                template = self.work / "sources" / "{}" / f"load-{place[1]}" / kind
                for name in names:
                    link_copy(Path(path), Path(str(template).replace("{}", name)))
                kinds[kind] = str(template)
        self._copies = len(names)

    def load(self, entry: Entry, load: int, *, restore: str | None) -> dict:
        """Have an engine do one load of the entry's kind."""
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
        """Give the engine saved histories of up to ``depth`` real loads after the first.

        Raises Failed, and again when asked again: what a failed load left is no history to go on from.
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


def run_case(bench: Bench, entries: list[Entry], repeats: int, failures: dict[str, str]) -> list[dict]:
    """Let the entries take turns; one result for each, in their order.

    ``failures`` names the entries that have no history to load into, with the reason.
    """
    loads: dict[str, list[dict]] = {entry.name: [] for entry in entries}
    ends: dict[str, dict] = {}
    wrong = dict(failures)
    out = set(failures)
    for number in range(repeats + 1):
        turn = number % len(entries)
        for entry in entries[turn:] + entries[:turn]:
            if entry.name in out:
                continue
            try:
                done = bench.load(entry, entry.depth + 1, restore=entry.restore)
                say(f"round {number} of {repeats}: {entry.name} {done['seconds']:.2f} s")
                if number:
                    loads[entry.name].append(done)
                if number in (0, repeats):
                    ends[entry.name] = bench.worker(entry.engine).ask("digest")
                    reason = difference(ends[entry.name], bench.expected(entry.variant, entry.depth + 1))
                    wrong |= {entry.name: reason} if reason else {}
            except Failed as failed:
                wrong[entry.name] = f"failed: {failed}"
                out.add(entry.name)
    return [result(entry.name, loads[entry.name], ends.get(entry.name), wrong.get(entry.name)) for entry in entries]


def difference(found: dict, expected: dict) -> str | None:
    """Return how a history differs from the expected one; None if it does not."""
    said = [
        f"{found[what]} {words}, should be {expected[what]}"
        for what, words in (("versions", "versions"), ("open", "open versions"))
        if found[what] != expected[what]
    ]
    if not said and found["checksum"] != expected["checksum"]:
        said = ["the same number of versions, but other keys, intervals or values"]
    if not said:
        return None
    return ": ".join(filter(None, (found.get("shortcoming"), "; ".join(said))))


def result(name: str, loads: list[dict], end: dict | None, wrong: str | None) -> dict:
    """An entry's result as the contract words it; medians are over the counted loads."""
    seconds = [round(load["seconds"], 3) for load in loads]
    read = [load["bytes_read"] for load in loads if load["bytes_read"] is not None]
    found = {
        "name": name,
        "seconds": seconds,
        "median": round(median(seconds), 3) if seconds else None,
        "min": min(seconds, default=None),
        "cpu_seconds": round(median(load["cpu_seconds"] for load in loads), 2) if loads else None,
        "bytes_read": int(median(read)) if read else None,
        "versions": end["versions"] if end else None,
        "open": end["open"] if end else None,
    }
    return found | ({"wrong": wrong} if wrong else {})


def say(text: str) -> None:
    """Progress, for whoever watches; standard output holds the results only."""
    print(f"bench: {text}", file=sys.stderr, flush=True)
