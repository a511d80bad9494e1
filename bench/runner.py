"""Runner of all measures: options, sessions, rounds, result files and printed tables.

A measure is a function with sizes, sides and bounds; its module has it as ``MEASURE`` and describes it in its
docstring. The function arranges its data with the help of a ``Run`` and records the costs of the sides; everything
else is done here.
"""

import argparse
import contextlib
import fcntl
import os
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, NoReturn

from bench.history.folders import remove
from bench.problem import BenchProblem
from bench.processes.environment import PLACE
from bench.processes.meter import Measured, metered
from bench.processes.worker import CORES
from bench.processes.workers import Failed
from bench.report import aligned, write_into, write_result
from elevata.bootstrap.places import ROOT, SPARK_JARS, relative

DOCS = ROOT / "docs" / "operate" / "performance.md"
LOG = PLACE / "logs" / "bench.log"
FAILED, INVALID, INTERRUPTED = 1, 4, 130
# Measure -> its module. Only the chosen one is imported: each needs other packages.
MODULES = {
    "history": "bench.history.measure",
    "flights": "bench.flights.measure",
    "changed_keys": "bench.changed_keys",
    "intake": "bench.intake.measure",
    "kafka": "bench.kafka",
    "feeds": "bench.feeds",
    "quality": "bench.quality",
    "models": "bench.models",
    "copies": "bench.copies",
    "web": "bench.web.measure",
    "api": "bench.api",
}


class UsageProblem(BenchProblem):
    """Invalid command-line arguments."""


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageProblem(f"{message}; see {self.prog} --help")


@dataclass(frozen=True)
class Bound:
    """Bound of a side's seconds, or of their ratio to those of ``divisor``.

    ``statistic`` reduces the times of a side.
    """

    name: str
    side: str
    divisor: str = ""
    at_most: float | None = None
    at_least: float | None = None
    statistic: Callable[[list[float]], float] = median

    @property
    def sides(self) -> set[str]:
        return {self.side, self.divisor} - {""}

    @property
    def wanted(self) -> str:
        if self.at_least is not None:
            return f">= {self.at_least:g}"
        return "" if self.at_most is None else f"<= {self.at_most:g}"

    def result(
        self,
        seconds: Mapping[str, list[float]],
        processor: Mapping[str, list[float]],
        wrong: Collection[str] = (),
    ) -> dict[str, Any]:
        """Return the measured value and whether the bound is met; ``wrong`` are the sides with a wrong result.

        The value is None without times, or if those of the divisor are 0.
        """
        value, met = self._value(seconds), None
        if self.wanted and not self.sides & set(wrong):
            met = None if value is None else self._is_met(value)
        elif self.wanted:
            # A peer that does another work is no peer; a wrong result of ours is no success.
            is_peer = self.at_least is not None and self.divisor not in wrong
            met = None if is_peer else False
        return {"value": value, "by_processor": self._value(processor), "wanted": self.wanted, "met": met}

    def _is_met(self, value: float) -> bool:
        is_over = self.at_most is not None and value > self.at_most
        is_under = self.at_least is not None and value < self.at_least
        return not (is_over or is_under)

    def _value(self, times: Mapping[str, list[float]]) -> float | None:
        if not self.sides <= set(times):
            return None
        divisor = self.statistic(times[self.divisor]) if self.divisor else 1
        return round_significant(self.statistic(times[self.side]) / divisor) if divisor else None


@dataclass(frozen=True)
class Measure:
    """Measure of the benchmark. ``take`` runs it and returns further fields of its result.

    ``measure_named`` sets the name, the description, and the name of the result file if it has no other one.
    ``sizes`` are its options with their defaults, ``rounds`` the counted ones (0: the measure has none of its own).
    ``options`` adds options that are no sizes and may change defaults, ``check`` refuses invalid ones. ``markdown``
    makes the table for the docs from the result.
    """

    take: Callable[["Run"], dict[str, Any]]
    sizes: Mapping[str, Any] = field(default_factory=dict)
    rounds: int = 0
    bounds: tuple[Bound, ...] = ()
    options: Callable[[argparse.ArgumentParser], None] | None = None
    check: Callable[[argparse.Namespace], None] | None = None
    markdown: Callable[[dict[str, Any]], str] | None = None
    file: str = ""
    name: str = ""
    description: str = ""

    @property
    def output(self) -> Path:
        return ROOT / "bench" / self.file


def measure_named(name: str) -> Measure:
    """Return a measure of ``MODULES`` with its name, described by the docstring of its module."""
    module = import_module(MODULES[name])
    chosen: Measure = module.MEASURE
    file = chosen.file or f"{name}_results.json"
    return replace(chosen, name=name, description=module.__doc__ or "", file=file)


class Run:
    """Run of a measure: its options, an empty folder, a Spark session, and the costs recorded so far by side.

    ``wrong`` has the reasons why sides failed, or why their results are not the expected ones.
    """

    def __init__(self, chosen: Measure, options: argparse.Namespace, folder: Path) -> None:
        self.measure, self.options, self.folder = chosen, options, folder
        self.costs: dict[str, list[tuple[float, float]]] = {}
        self.wrong: dict[str, str] = {}
        self.bounds = list(chosen.bounds)
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> "Run":
        remove(self.folder)
        self.folder.mkdir(parents=True)
        self._stack.callback(remove, self.folder)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def enter(self, context: contextlib.AbstractContextManager[Any]) -> Any:
        """Enter a context that is left when the run ends; return its value."""
        return self._stack.enter_context(context)

    @property
    def warehouse(self) -> str:
        return str(self.folder / "warehouse")

    @cached_property
    def spark(self) -> Any:
        """Spark session with the product's settings, on as many cores as every engine."""
        from bench.processes.session import product_settings, start

        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
        spark = start(product_settings(Path(self.warehouse), SPARK_JARS), self.measure.name)
        self._stack.callback(spark.stop)
        return spark

    def rounds(self) -> Iterator[int]:
        """Yield the numbers of the rounds; what is recorded in the first one, 0, is not counted."""
        for number in range(self.options.rounds + 1):
            yield number
            if not number:
                self.costs.clear()

    def timed(self, side: str, work: Callable[[], Any]) -> Any:
        """Run ``work`` in the Spark session, record its cost for this side, and return its value."""
        with metered(self.spark) as measured:
            value = work()
        self.record(side, measured)
        return value

    def record(self, side: str, cost: Measured | tuple[float, float]) -> None:
        """Record a cost of a side: elapsed seconds and those of the processor."""
        seconds, processor = cost if isinstance(cost, tuple) else (cost.seconds, cost.cpu_seconds)
        self.costs.setdefault(side, []).append((seconds, processor))
        say(f"{side}: {seconds:.2f} s")

    def result(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Return the result: sizes, facts, times of each side, and bounds of the sides that were measured or failed."""
        document = {name: getattr(self.options, name) for name in self.measure.sizes} | facts
        if self.costs or self.wrong:
            names = ("seconds", "processor_seconds")
            rounded = {side: [(*map(round_significant, cost),) for cost in costs] for side, costs in self.costs.items()}
            times = [{side: [cost[n] for cost in costs] for side, costs in rounded.items()} for n in (0, 1)]
            document |= dict(zip(names, times, strict=True)) | ({"wrong": self.wrong} if self.wrong else {})
            bounds = [bound for bound in self.bounds if bound.sides <= {*self.costs, *self.wrong}]
            document["bounds"] = {bound.name: bound.result(*times, self.wrong) for bound in bounds}
        return document

    def save(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Write the result file, if one is wanted, and return its content."""
        document = self.result(facts)
        if self.options.output:
            write_result(self.options.output, document)
        return document


def main(arguments: list[str]) -> int:
    """Run a measure, by default that of the history step; an error is one line on standard error."""
    try:
        chosen, options = parse(arguments)
        with _alone():
            _run(chosen, options)
    except SystemExit as end:
        return int(end.code or 0)
    except UsageProblem as problem:
        return _end(INVALID, str(problem))
    except (BenchProblem, Failed, OSError) as problem:
        return _end(FAILED, str(problem))
    except KeyboardInterrupt:
        return _end(INTERRUPTED, "interrupted")
    except Exception as error:
        LOG.parent.mkdir(parents=True, exist_ok=True)
        LOG.write_text(traceback.format_exc())
        return _end(FAILED, f"{type(error).__name__}: {error} (an error of the program: see {relative(LOG)})")
    return 0


def parse(arguments: list[str]) -> tuple[Measure, argparse.Namespace]:
    """Return the chosen measure and its checked options; raise UsageProblem with a one-line message."""
    name = "history" if not arguments or arguments[0].startswith("-") else arguments[0]
    if name not in MODULES:
        raise UsageProblem(f"there is no measure {name!r}: choose from {', '.join(MODULES)}")
    chosen = measure_named(name)
    parser = Parser(prog=f"python -m bench {name}", description=f"{chosen.description} Measures: {', '.join(MODULES)}.")
    for size, default in chosen.sizes.items():
        kind = {"action": "store_true"} if default is False else {"type": number(type(default)), "metavar": "N"}
        many = {"type": int, "nargs": len(default)} if isinstance(default, tuple) else {}
        parser.add_argument(f"--{size.replace('_', '-')}", default=default, help=f"({default})", **kind | many)
    if chosen.rounds:
        parser.add_argument("--rounds", type=number(int), default=chosen.rounds, help=f"counted ({chosen.rounds})")
    if chosen.markdown:
        parser.add_argument("--docs", action="store_true", help=f"write the tables into {relative(DOCS)}")
    parser.add_argument("--output", type=Path, default=chosen.output, metavar="FILE", help=relative(chosen.output))
    if chosen.options:
        chosen.options(parser)
    options = parser.parse_args(arguments[1:] if arguments and arguments[0] == name else arguments)
    if chosen.check:
        chosen.check(options)
    return chosen, options


def number(kind: type, least: float = 1) -> Callable[[str], Any]:
    """Return a parser of numbers for an option."""

    def number(text: str) -> Any:
        value = kind(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, not {text}")
        return value

    return number


def _run(chosen: Measure, options: argparse.Namespace) -> None:
    with Run(chosen, options, PLACE / "data") as run:
        document = run.save(chosen.take(run))
    text = chosen.markdown(document) if chosen.markdown else summary(document)
    if chosen.markdown and options.docs:
        write_into(DOCS, text, chosen.name)
    print(f"\n{text}" + (f"\n\nwritten to {relative(options.output)}" if options.output else ""))


def summary(document: dict[str, Any]) -> str:
    """Return times of the sides and values of the bounds as text tables."""
    seconds, processor, wrong = (document.get(name, {}) for name in ("seconds", "processor_seconds", "wrong"))
    sides = [("side", "median s", "cpu s", "of")]
    for side in [*seconds, *(side for side in wrong if side not in seconds)]:
        taken = seconds.get(side, [])
        medians = (f"{median(taken):.3f}", f"{median(processor[side]):.3f}") if taken else ("-", "-")
        reason = f"  wrong: {wrong[side]}" if side in wrong else ""
        sides.append((side, *medians, ", ".join(f"{value:.2f}" for value in taken) + reason))
    bounds = [("bound", "wanted", "measured", "by cpu", "")]
    for name, entry in document.get("bounds", {}).items():
        met = {True: "met", False: "MISSED", None: "does not count" if entry["wanted"] else ""}[entry["met"]]
        values = ("-" if value is None else f"{value:.3f}" for value in (entry["value"], entry["by_processor"]))
        bounds.append((name, entry["wanted"], *values, met))
    return f"{aligned(sides)}\n\n{aligned(bounds)}"


def round_significant(value: float) -> float:
    """Return the value with four significant digits, as results have it."""
    return float(f"{value:.4g}")


def say(text: str) -> None:
    """Print progress to standard error; standard output holds the results only."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def require(value: Any, wanted: Any, what: str) -> None:
    """Raise BenchProblem unless ``value`` is ``wanted``; ``what`` names it."""
    if value != wanted:
        raise BenchProblem(f"{what}: {value} instead of {wanted}")


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Allow one benchmark at a time in a checkout, since two would disturb each other's measurements."""
    PLACE.mkdir(parents=True, exist_ok=True)
    folder = os.open(PLACE, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BenchProblem("another benchmark is running in this checkout") from None
        yield
    finally:
        os.close(folder)


def _end(code: int, message: str) -> int:
    print(f"bench: {' '.join(message.split())}", file=sys.stderr)
    return code
