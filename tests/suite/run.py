"""Runs of parts of the suite, as named in the Makefile.

A part is one or more passes, each a run of pytest in two processes. Tests that failed are run once more at the end,
alone. A test that passes then is named as unstable in the last lines, and the part has passed. Tests that were left out
because the time of the run was over (TESTS_UNTIL) are named there, too.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.suite.changed import reached_files
from tests.suite.durations import Outcomes, file_of, summary
from tests.suite.tiers import OTHER_NEEDS, is_at_a_door

ROOT = Path(__file__).resolve().parents[2]
SERVICES = "ELEVATA_TEST_SERVICES"
PROCESSES = "2"
# Time (epoch) after which a run starts no further file, so that it ends before CI's time limit.
UNTIL = "TESTS_UNTIL"
# So many failures are not random: the tests are not run again.
MOST_SECOND_TRIES = 40
CHANGED = "changed"
_PASSED, _TESTS_FAILED, _NO_TESTS = 0, 1, 5

_BY_NIGHT = {"ELEVATA_EXAMPLES": "night"}


@dataclass(frozen=True)
class Pass:
    """Run of pytest: the tests with these marks, on these services."""

    name: str
    marks: str
    services: str = "postgres_redis"
    environment: Mapping[str, str] = field(default_factory=dict)
    # Tells by a file's name and text whether it may have tests of the pass. The others are not collected: collecting
    # every test takes 40 seconds in each process.
    may_hold: Callable[[str, str], bool] | None = None
    chosen: tuple[str, ...] = ()

    def files(self) -> list[str]:
        """Return the test files to collect; none means all."""
        if self.may_hold is None:
            return list(self.chosen)
        files = {str(file.relative_to(ROOT)): file for file in (ROOT / "tests").rglob("test_*.py")}
        return sorted(name for name, file in files.items() if self.may_hold(name, file.read_text(encoding="utf-8")))

    def variables(self) -> dict[str, str]:
        return {**os.environ, SERVICES: self.services, **self.environment}


def _is_marked(*marks: str) -> Callable[[str, str], bool]:
    pattern = re.compile(rf"mark\.({'|'.join(marks)})\b")
    return lambda name, text: bool(pattern.search(text))


_has_embedded = _is_marked("embedded", "embedded_only")
_has_servers, _needs_more = _is_marked("servers"), _is_marked(*OTHER_NEEDS)


def _embedded_or_door(name: str, text: str) -> bool:
    return is_at_a_door(name) or _has_embedded(name, text)


def _not_only_door(name: str, text: str) -> bool:
    return not is_at_a_door(name) or _needs_more(name, text)


_EMBEDDED = "(embedded or embedded_only) and not (services or servers)"
_EMBEDDED_BY_DAY = "(embedded or embedded_only or door) and not (services or servers or nightly)"

# make test runs all tests of quick kinds, and those of Spark and of the browser that are marked core.
_QUICK = "(core or not (spark or browser)) and not full"
_BY_DAY = "not (nightly or servers or embedded_only or door)"

TEST = (
    Pass("embedded", f"{_EMBEDDED_BY_DAY} and {_QUICK}", "embedded", may_hold=_embedded_or_door),
    Pass("main", f"{_QUICK} and {_BY_DAY}", may_hold=_not_only_door),
)
REST = (
    Pass("embedded, rest", f"{_EMBEDDED_BY_DAY} and not ({_QUICK})", "embedded", may_hold=_embedded_or_door),
    Pass(
        "main and servers, rest",
        f"(servers or not ({_QUICK})) and not (nightly or embedded_only or door)",
        may_hold=_is_marked("full", *OTHER_NEEDS),
    ),
)
PARTS = {
    "test": TEST,
    "rest": REST,
    "full": (*TEST, *REST),
    "services": (Pass("servers", "servers and not nightly", may_hold=_has_servers),),
    "nightly": (
        Pass(
            "embedded",
            _EMBEDDED,
            "embedded",
            {**_BY_NIGHT, "ELEVATA_FOUR_EYES_EXAMPLES": "3000"},
            may_hold=_has_embedded,
        ),
        Pass(
            "main",
            "not embedded_only",
            environment={
                **_BY_NIGHT,
                "ELEVATA_SPARK_EXAMPLES": "8",
                "ELEVATA_API_EXAMPLES": "10",
                "ELEVATA_DISTURBED_EXAMPLES": "60",
            },
        ),
    ),
}


@dataclass
class Result:
    """Outcomes of a part: seconds by test of all passes, and tests by how they ended."""

    seconds: dict[str, float] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    tests: int = 0
    failed: list[str] = field(default_factory=list)
    unstable: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    # Exit code of a pass that was interrupted or ended with an error of pytest.
    broken: int = _PASSED

    def add(self, outcomes: Outcomes) -> None:
        for test, seconds in outcomes.seconds.items():
            self.seconds[test] = self.seconds.get(test, 0) + seconds
        self.kinds |= outcomes.kinds
        self.tests += len(outcomes.seconds)
        self.left_out += outcomes.left_out

    @property
    def exit_code(self) -> int:
        if self.broken:
            return self.broken
        return _TESTS_FAILED if self.failed else _PASSED if self.tests else _NO_TESTS

    def lines(self) -> list[str]:
        """Return the last lines of a run; the very last one is the count."""
        unstable = [f"unstable: {test} failed, and passed when it was run again, alone" for test in self.unstable]
        failed = [f"failed: {test}" for test in self.failed]
        late = Counter(map(file_of, self.left_out))
        left_out = [f"left out, the time was over: {number} tests of {file}" for file, number in sorted(late.items())]
        count = f"{self.tests - len(self.failed)} passed, {len(self.failed)} failed"
        return [*summary(self.seconds, self.kinds), *failed, *unstable, *left_out, count]


def run_part(passes: Sequence[Pass]) -> Result:
    """Run the passes in order, then each failed test once more."""
    result = Result()
    tries = []
    with tempfile.TemporaryDirectory(prefix="elevata-outcomes-") as folder:
        for number, each in enumerate(passes):
            code, outcomes = _pytest(each, Path(folder) / f"{number}.json", _side_by_side(each))
            result.add(outcomes)
            if code == _TESTS_FAILED and 0 < len(outcomes.failed) <= MOST_SECOND_TRIES:
                tries.append((each, outcomes.failed))
            elif code not in (_PASSED, _NO_TESTS):
                result.failed += outcomes.failed
                result.broken = result.broken or code
        for number, (each, failed) in enumerate(tries):
            still_failed = _run_again(each, failed, Path(folder) / f"again-{number}")
            result.failed += still_failed
            result.unstable += [test for test in failed if test not in still_failed]
    return result


def _run_again(each: Pass, failed: Sequence[str], place: Path) -> list[str]:
    """Run the tests alone; return those that fail again, or that did not run."""
    chosen = place.with_suffix(".ids")
    chosen.write_text(json.dumps(list(failed)))
    files = sorted(set(map(file_of, failed)))
    print(f"== run again, alone: {len(failed)} failed", flush=True)
    _, outcomes = _pytest(each, place.with_suffix(".json"), ["--only", str(chosen), *files])
    return [test for test in failed if test in outcomes.failed or test not in outcomes.seconds]


def _side_by_side(each: Pass) -> list[str]:
    until = os.environ.get(UNTIL)
    limit = ["--until", until] if until else []
    return ["-n", PROCESSES, "--dist", "loadfile", "--no-loadscope-reorder", *limit, *each.files()]


def _pytest(each: Pass, outcomes: Path, arguments: Iterable[str]) -> tuple[int, Outcomes]:
    command = [sys.executable, "-m", "pytest", "-q", "-m", each.marks, "--outcomes", str(outcomes), *arguments]
    print(f"== {each.name}", flush=True)
    done = subprocess.run(command, cwd=ROOT, env=each.variables(), stdin=subprocess.DEVNULL)
    return done.returncode, Outcomes.read(outcomes)


def _changed_passes() -> list[Pass]:
    files = reached_files(ROOT)
    quick = f"{_QUICK} and not (nightly or servers or embedded_only)"
    return [Pass(CHANGED, quick, chosen=files)] if files else []


def main(arguments: Sequence[str]) -> int:
    """Run the part that is named; print its last lines and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.suite.run", description=__doc__)
    parser.add_argument("part", choices=[*PARTS, CHANGED])
    name = parser.parse_args(arguments).part
    started = time.monotonic()
    passes = _changed_passes() if name == CHANGED else PARTS[name]
    if not passes:
        print("no test reaches what was changed\n0 passed, 0 failed")
        return _PASSED
    result = run_part(passes)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"== {name}: {time.monotonic() - started:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of processor time")
    print("\n".join(result.lines()), flush=True)
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
