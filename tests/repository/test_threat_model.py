"""Tests of docs/operate/threat_model.md: every guarantee names an existing test."""

import re

from tests.repository.code_audit import ROOT

MODEL = (ROOT / "docs" / "operate" / "threat_model.md").read_text()
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_every_test_named_in_the_threat_model_exists():
    missing = [
        f"{file}::{name}"
        for file, name in _TEST.findall(MODEL)
        if not (ROOT / file).is_file() or f"\ndef {name}(" not in (ROOT / file).read_text()
    ]
    assert missing == []


def test_every_guarantee_names_its_test():
    rows = re.findall(r"^\| (?!guarantee|---)(.+?) \| (.+) \|$", MODEL.partition("## Where trust ends")[2], re.M)
    assert len(rows) > 30
    assert [guarantee for guarantee, tests in rows if not _TEST.search(tests)] == []


def test_every_file_of_attacks_is_named_by_a_guarantee():
    named = {name for file, name in _TEST.findall(MODEL) if file.startswith("tests/attacks/")}
    files = {path.name for path in (ROOT / "tests" / "attacks").glob("test_*.py")}
    assert {file.rsplit("/", 1)[1] for file, _ in _TEST.findall(MODEL) if file.startswith("tests/attacks/")} == files
    assert len(named) > 20
