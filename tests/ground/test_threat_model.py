"""Tests of docs/operate/threat_model.md: every line names an existing test."""

import re

from tests.auditing import ROOT

MODEL = (ROOT / "docs" / "operate" / "threat_model.md").read_text()
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_every_test_that_is_named_is_there():
    missing = [
        f"{file}::{name}"
        for file, name in _TEST.findall(MODEL)
        if not (ROOT / file).is_file() or f"\ndef {name}(" not in (ROOT / file).read_text()
    ]
    assert missing == []


def test_every_line_names_its_test():
    lines = re.findall(r"^\| (?!who|line|---)(.+?) \| (.+) \|$", MODEL.partition("## Where trust ends")[2], re.M)
    assert len(lines) > 30
    assert [line for line, held in lines if not _TEST.search(held)] == []


def test_every_attack_holds_a_line():
    named = {name for file, name in _TEST.findall(MODEL) if file.startswith("tests/attacks/")}
    files = {path.name for path in (ROOT / "tests" / "attacks").glob("test_*.py")}
    assert {file.rsplit("/", 1)[1] for file, _ in _TEST.findall(MODEL) if file.startswith("tests/attacks/")} == files
    assert len(named) > 20
