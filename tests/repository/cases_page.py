"""Page that lists the test cases: ``python -m tests.repository.cases_page > docs/understand/cases.md`` writes it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "understand" / "cases.md"
PLANNING = TESTS / "architecture" / "domain" / "planning" / "cases"
HISTORY = TESTS / "loader" / "reference" / "cases"

# Subject of each file of planning cases.
ABOUT = {
    "contract": "examples of the format",
    "tables": "datasets added, removed, retired, and changed between table and view",
    "renames": "renames, changed keys, and ambiguous names",
    "types": "every kind of type change, with its decision",
    "history": "histories: retained, enabled again, without loss",
    "logic": "expressions, filters, inputs and history policies: changes of the compared values",
}
_INPUTS = {
    "snapshot": "full snapshots",
    "delta": "deltas",
    "effective": "effective rows",
    "cdc": "feeds",
    "batch_files": "batch files",
}
_RULE = re.compile(r"r(\d+)-(.+)")

_HEAD = """# Cases

For engineers who change planning or historization: the list of test cases that are data, in JSON. Each has a small
situation and its expected result, and can be run alone. Cases that combine choices are in code:
`tests/architecture/domain/*/test_acceptance_*.py` and `tests/loader/reference/test_acceptance_history.py`.

| cases | files | input | expected result | run by |
|---|---|---|---|---|
| planning | `tests/architecture/domain/planning/cases/*.json` | two states and a change policy | \
operations, decisions, warnings, status | \
`tests/architecture/domain/planning/test_cases.py`, before and after execution; \
`tests/loader/engine/tables/test_plan_cases.py` on Delta tables with rows |
| history | `tests/loader/reference/cases/*.json` | batches and a history policy | versions, or the refusal | \
`tests/loader/reference/test_cases.py` on the reference; \
`tests/loader/engine/historization/test_policies.py` and `manage.py replay FILE [--only ID…]` on Spark and Delta |

`python -m tests.repository.cases_page > docs/understand/cases.md` writes this page; a test fails when it is out of \
date."""


def page() -> str:
    """Return the whole page as Markdown."""
    return "\n".join([_HEAD, "", "## Planning", *_planning(), "", "## History", *_history()]) + "\n"


def _cases(file: Path) -> list[dict]:
    return json.loads(file.read_text(encoding="utf-8"))


def _planning() -> Iterator[str]:
    for name, about in ABOUT.items():
        cases = _cases(PLANNING / f"{name}.json")
        heads = "| case | allowed by policy | operations: status | warnings |"
        yield from ("", f"### {name}.json: {about}", "", heads, "|---|---|---|---|")
        for case in cases:
            allowed = ", ".join(sorted(flag.removeprefix("allow_") for flag, on in case["policy"].items() if on))
            cells = (case["id"].replace("_", " "), allowed, _expected(case["expect"]), _codes(case["expect"]))
            yield f"| {' | '.join(cells)} |"


def _expected(expect: dict) -> str:
    """Return the operations with the decisions that the case names, each once, and the report's status."""
    texts = [
        f"{operation['op']} {operation['decision']}" if operation.get("decision") else operation["op"]
        for operation in expect["operations"]
    ]
    texts += [f"{op} (metadata only)" for op, _ in expect.get("metadata_only", ())]
    counted = [f"{texts.count(text)} × {text}" if texts.count(text) > 1 else text for text in dict.fromkeys(texts)]
    return f"{', '.join(counted) or 'nothing'}: {expect['status'].replace('_', ' ')}"


def _codes(expect: dict) -> str:
    return ", ".join(f"`{code}`" for code in dict.fromkeys(expect.get("warnings", ())))


def _history() -> Iterator[str]:
    """Yield the cases by their rule; those without a rule by the input of the history."""
    rules: dict[int, list[str]] = {}
    inputs: dict[str, list[str]] = {}
    for file in sorted(HISTORY.glob("*.json")):
        for case in _cases(file):
            rule = _RULE.fullmatch(case["id"])
            if rule:
                rules.setdefault(int(rule[1]), []).append(rule[2])
            else:
                inputs.setdefault(case["policy"].get("input", "snapshot"), []).append(case["id"].removeprefix("own-"))
    yield from ("", "By [rule](history_rules.md) (`acceptance.json`):", "")
    yield from ("| rule | cases |", "|---|---|")
    yield from (f"| {rule} | {_listed(names)} |" for rule, names in sorted(rules.items()))
    yield from ("", "Complete histories (`contract.json`, `own.json`, the rest of `acceptance.json`), by input:", "")
    yield from ("| input | cases |", "|---|---|")
    yield from (f"| {words} | {_listed(inputs[name])} |" for name, words in _INPUTS.items())


def _listed(names: list[str]) -> str:
    """Return the names as words; names that differ only in a trailing number are counted together."""
    numbered: dict[str, int] = {}
    for name in names:
        plain = re.sub(r"-\d+$", "", name).replace("-", " ")
        numbered[plain] = numbered.get(plain, 0) + 1
    return "; ".join(f"{name} ({count})" if count > 1 else name for name, count in numbered.items())


if __name__ == "__main__":
    print(page(), end="")
