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


# Beginnings of the remaining risks that tests of the product cannot show: risks of other programs, of timing, or of
# earlier acts of an administrator.
_BEYOND_TESTS = (
    "change rows and restore them while",
    "lower the number of repetitions",
    "New files of a warehouse outside the data folder",
    "Spark's readers of Kafka and of databases resolve",
    "Whoever may write to a Hive metastore",
    "Two installations on one catalog whose",
    "Roles and masking end at the product",
    "Sessions of single sign-on end with the session here",
    "A report that copies sensitive columns",
    "Rules, row security and triggers on tables other",
    "Reads of commands without a user",
    "With SQLite, other writers wait",
    "An editor sees samples of everything",
    "A classification covers what columns are made of now",
    "Decisions on single quarantined rows that were requested with release",
    "A spreadsheet program that splits CSV",
)


def test_every_remaining_risk_names_its_test_or_is_beyond_tests():
    risks = re.findall(r"^\* (.+)$", MODEL.partition("## Left open")[2], re.M)
    untested = [risk for risk in risks if not _TEST.search(risk)]
    # Each risk by its beginning, or its whole text if it has none of these beginnings.
    beginnings = [next(filter(risk.startswith, _BEYOND_TESTS), risk) for risk in untested]
    assert sorted(beginnings) == sorted(_BEYOND_TESTS)


def test_every_file_of_attacks_is_named_by_a_guarantee():
    named = {name for file, name in _TEST.findall(MODEL) if file.startswith("tests/attacks/")}
    files = {path.name for path in (ROOT / "tests" / "attacks").glob("test_*.py")}
    assert {file.rsplit("/", 1)[1] for file, _ in _TEST.findall(MODEL) if file.startswith("tests/attacks/")} == files
    assert len(named) > 20
