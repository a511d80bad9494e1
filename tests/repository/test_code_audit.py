"""Tests of make audit: findings fail it, exceptions need reasons, an unreachable index is only reported."""

import json
from typing import Any

import pytest

from tests.repository.code_audit import ROOT, Output, ask_about_packages, ask_bandit, exceptions


def answers(document: Any = None, err: str = "", code: int = 0):
    out = "" if document is None else json.dumps(document)
    return lambda _: Output(code, out, err)


VULNERABLE = {
    "dependencies": [
        {"name": "left", "version": "1.0", "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["1.1"]}]},
        {"name": "right", "version": "2.0", "vulns": []},
        {"name": "ours", "skip_reason": "not on the index"},
    ]
}
FOUND = {"filename": "./elevata/x.py", "line_number": 7, "test_id": "B608", "issue_text": "SQL by hand"}


def test_a_vulnerable_package_is_a_finding():
    assert ask_about_packages({}, answers(VULNERABLE, code=1)).findings == ["left 1.0: PYSEC-1, mended in 1.1"]


@pytest.mark.parametrize("name", ["PYSEC-1", "CVE-1"])
def test_exception_matches_any_alias_of_a_vulnerability(name: str):
    assert ask_about_packages({name: "not reachable from here"}, answers(VULNERABLE, code=1)).findings == []


def test_audit_without_a_network_reports_that_no_package_was_checked():
    result = ask_about_packages({}, answers(err="Traceback…\nConnectionError: no route to host\n", code=1))
    assert result.findings == []
    assert result.error.endswith("ConnectionError: no route to host")


def test_a_finding_of_bandit_names_its_place():
    result = ask_bandit({}, answers({"results": [FOUND], "errors": []}))
    assert result.findings == ["./elevata/x.py:7 B608 SQL by hand"]


def test_excepted_finding_of_bandit_is_ignored():
    result = ask_bandit(
        {"elevata/x.py:B608": "names are quoted by one function"}, answers({"results": [FOUND], "errors": []})
    )
    assert result.findings == []


def test_unused_exception_is_a_finding():
    result = ask_bandit({"elevata/y.py:B608": "it was there once"}, answers({"results": [], "errors": []}))
    assert result.findings == ["the exception elevata/y.py:B608 fits nothing any more: take it out"]


def test_failure_of_bandit_is_a_finding():
    assert ask_bandit({}, answers(err="boom")).findings == ["bandit did not work: boom"]


def test_an_exception_without_a_reason_is_refused():
    with pytest.raises(ValueError, match="CVE-1 says no reason"):
        exceptions('[tool.elevata.audit.packages]\n"CVE-1" = "later"\n')


def test_exceptions_of_the_project_have_reasons():
    exceptions((ROOT / "pyproject.toml").read_text())


def test_make_test_runs_the_audit():
    makefile = (ROOT / "Makefile").read_text()
    needs = makefile.partition("\ntest: ")[2].partition("\n")[0].partition("##")[0].split()
    assert "check" in needs
    assert "tests.repository.code_audit" in makefile.partition("\ncheck:")[2].partition("\n\n")[0]
