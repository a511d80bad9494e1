"""Audits of ``make audit``: bandit on the project's code, pip-audit on the pinned packages.

The exit code is 1 if there are findings. Exceptions are in pyproject.toml with their reasons; an exception that
matches no finding is itself a finding. An unreachable package index is reported but is no finding, because a machine
without a network must be able to run the tests.
"""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from elevata.core.installation import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 900


class Output(NamedTuple):
    """Output and exit code of a program."""

    code: int
    out: str
    err: str


class AuditResult(NamedTuple):
    """Findings of an audit, a line each, and the reason if it could not run."""

    findings: list[str]
    error: str = ""


Run = Callable[[Sequence[str]], Output]


def run(command: Sequence[str]) -> Output:
    """Run a program of the environment; a timeout counts as no output."""
    program = str(Path(sys.executable).with_name(command[0]))
    try:
        done = subprocess.run([program, *command[1:]], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return Output(-1, "", f"{command[0]} did not end within {SECONDS} seconds")
    return Output(done.returncode, done.stdout, done.stderr)


def exceptions(pyproject: str) -> dict[str, dict[str, str]]:
    """Return the reasons by tool and exception. Raise ValueError for an exception without a reason."""
    known = tomllib.loads(pyproject).get("tool", {}).get("elevata", {}).get("audit", {})
    for tool, excepted in known.items():
        for name, reason in excepted.items():
            if len(reason.split()) < 5:
                raise ValueError(f"tool.elevata.audit.{tool}: {name} says no reason")
    return {"bandit": known.get("bandit", {}), "packages": known.get("packages", {})}


def ask_bandit(excepted: Mapping[str, str], run: Run = run) -> AuditResult:
    """Return bandit's findings of medium severity and above; exceptions are named ``path:test``."""
    output = run(["bandit", "--quiet", "--recursive", *PACKAGES, "--severity-level", "medium", "--format", "json"])
    document = _document(output)
    if document is None:
        return AuditResult([f"bandit did not work: {_last_line(output.err)}"])
    names = [f"{result['filename'].removeprefix('./')}:{result['test_id']}" for result in document["results"]]
    lines = [
        f"{result['filename']}:{result['line_number']} {result['test_id']} {result['issue_text']}"
        for result, name in zip(document["results"], names, strict=True)
        if name not in excepted
    ]
    broken = [f"{error['filename']}: {error['reason']}" for error in document["errors"]]
    return AuditResult([*lines, *broken, *_unused(excepted, names)])


def ask_about_packages(excepted: Mapping[str, str], run: Run = run) -> AuditResult:
    """Return known vulnerabilities of the installed packages, as reported by pip-audit."""
    output = run(["pip-audit", "--local", "--progress-spinner", "off", "--timeout", "15", "--format", "json"])
    document = _document(output)
    if document is None:
        return AuditResult([], f"pip-audit could not ask about packages: {_last_line(output.err)}")
    known = {
        (package["name"], row["id"], *row.get("aliases", ())): f"{package['name']} {package['version']}: {row['id']}, "
        f"mended in {', '.join(row['fix_versions']) or 'no version yet'}"
        for package in document["dependencies"]
        for row in package.get("vulns", ())
    }
    lines = [line for names, line in known.items() if not set(names[1:]) & set(excepted)]
    ids = [name for names in known for name in names[1:]]
    return AuditResult([*lines, *_unused(excepted, ids)])


def _unused(excepted: Mapping[str, str], names: Sequence[str]) -> list[str]:
    return [f"the exception {name} fits nothing any more: take it out" for name in sorted(set(excepted) - set(names))]


def _document(output: Output) -> dict[str, Any] | None:
    try:
        read = json.loads(output.out)
    except json.JSONDecodeError:
        return None
    return read if isinstance(read, dict) else None


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def main() -> int:
    excepted = exceptions((ROOT / "pyproject.toml").read_text())
    results = [ask_bandit(excepted["bandit"]), ask_about_packages(excepted["packages"])]
    findings = [line for result in results for line in result.findings]
    for line in [*findings, *(f"NOT ASKED: {result.error}" for result in results if result.error)]:
        print(line)
    print(f"audit: {len(findings)} finding{'' if len(findings) == 1 else 's'}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
