"""Page of the product's own cases: ``python -m tests.cases_page > docs/understand/cases.md`` writes it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "understand" / "cases.md"
PLANNING = TESTS / "architecture" / "cases"
HISTORY = TESTS / "loader" / "reference" / "cases"

# What each file of planning cases is about.
ABOUT = {
    "contract": "the contract's examples",
    "tables": "datasets that come, go, rest and change between table and view",
    "renames": "what is the same under another name or key, and what cannot be told",
    "types": "every kind of change of type, and what is agreed to with it",
    "history": "what a history keeps, takes up again and never loses",
    "logic": "expressions, filters, inputs and policies: what compares differently and what does not",
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

The product's own cases: small situations, each with what must come of it. They are data, not code, in the
contract's format, so any of them can be run by hand. Where choices meet, there are more, in code:
`tests/architecture/test_acceptance_*.py` and `tests/loader/test_acceptance_history.py`.

| cases | are in | say | are run by |
|---|---|---|---|
| planning | `tests/architecture/cases/*.json` | two states and a policy; operations, decisions, warnings, status | \
`tests/architecture/test_plan_cases.py` as they are and once carried out; `tests/loader/test_plan_cases_spark.py` on \
real Delta tables with rows in them |
| history | `tests/loader/reference/cases/*.json` | batches under a policy; the versions there are then, or the \
refusal | `tests/loader/reference/test_cases.py` on the reference; `tests/loader/test_policies_spark.py` and \
`manage.py replay FILE [--only ID…]` on Spark and Delta |

`python -m tests.cases_page > docs/understand/cases.md` writes this page; a test fails when it is out of date."""


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join([_HEAD, "", "## Planning", *_planning(), "", "## History", *_history()]) + "\n"


def _cases(file: Path) -> list[dict]:
    return json.loads(file.read_text(encoding="utf-8"))


def _planning() -> Iterator[str]:
    for name, about in ABOUT.items():
        cases = _cases(PLANNING / f"{name}.json")
        yield from ("", f"### {name}.json: {about}", "", "| case | with | gives | warns |", "|---|---|---|---|")
        for case in cases:
            allowed = ", ".join(sorted(flag.removeprefix("allow_") for flag, on in case["policy"].items() if on))
            cells = (case["id"].replace("_", " "), allowed, _expected(case["expect"]), _codes(case["expect"]))
            yield f"| {' | '.join(cells)} |"


def _expected(expect: dict) -> str:
    """Operations with the decisions that the case names, each once, then what else it says of the report."""
    said = [f"{one['op']} {one['decision']}" if one.get("decision") else one["op"] for one in expect["operations"]]
    said += [f"{op} (metadata only)" for op, _ in expect.get("metadata_only", ())]
    counted = [f"{said.count(one)} × {one}" if said.count(one) > 1 else one for one in dict.fromkeys(said)]
    return f"{', '.join(counted) or 'nothing'}: {expect['status'].replace('_', ' ')}"


def _codes(expect: dict) -> str:
    return ", ".join(f"`{code}`" for code in dict.fromkeys(expect.get("warnings", ())))


def _history() -> Iterator[str]:
    """Cases by the rule that they are about, else by what the history is fed with."""
    rules: dict[int, list[str]] = {}
    inputs: dict[str, list[str]] = {}
    for file in sorted(HISTORY.glob("*.json")):
        for case in _cases(file):
            rule = _RULE.fullmatch(case["id"])
            if rule:
                rules.setdefault(int(rule[1]), []).append(rule[2])
            else:
                inputs.setdefault(case["policy"].get("input", "snapshot"), []).append(case["id"].removeprefix("own-"))
    yield from ("", "One rule at a time (`acceptance.json`; the rules are those of the contract's history rules):", "")
    yield from ("| rule | cases |", "|---|---|")
    yield from (f"| {rule} | {_listed(names)} |" for rule, names in sorted(rules.items()))
    yield from ("", "Whole histories (`contract.json`, `own.json`, the rest of `acceptance.json`), by input:", "")
    yield from ("| input | cases |", "|---|---|")
    yield from (f"| {words} | {_listed(inputs[name])} |" for name, words in _INPUTS.items())


def _listed(names: list[str]) -> str:
    """Names in words; those that differ in their number alone are one."""
    numbered: dict[str, int] = {}
    for name in names:
        plain = re.sub(r"-\d+$", "", name).replace("-", " ")
        numbered[plain] = numbered.get(plain, 0) + 1
    return "; ".join(f"{name} ({count})" if count > 1 else name for name, count in numbered.items())


if __name__ == "__main__":
    print(page(), end="")
