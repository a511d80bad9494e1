"""Tests of the structure of modules: one subject each, and a logger above the definitions that use it."""

import ast
import io
import re
import tokenize

import pytest

from elevata.bootstrap.places import ROOT
from elevata.core.installation import PACKAGES
from tests.repository.test_vocabulary import modules

# A longer module with a second subject must be split. Headings within a class group the methods of one subject.
MAX_LINES_WITH_HEADINGS = 150
# Django reads all settings from one module; its headings are groups of settings.
EXEMPT = {"elevata/settings.py"}
# A comment on the level of the module, with a line drawn before or behind its words, or without words.
HEADING = re.compile(r"#+\s*[-=~*_#]{2,}(\s|$)|#.*\s[-=~*_]{3,}$")
DEFINITION = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def first_definition(source: str) -> int | None:
    """Return the line of the first function or class of a module; None without any."""
    return next((node.lineno for node in ast.parse(source).body if isinstance(node, DEFINITION)), None)


def second_headings(source: str) -> list[str]:
    """Return the headings of further subjects in a module that is too long for them: those below a definition."""
    lines = source.splitlines()
    if len(lines) <= MAX_LINES_WITH_HEADINGS or not any(map(HEADING.match, lines)):
        return []
    first = first_definition(source)
    return [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
        and first is not None
        and token.start > (first, 0)
        and token.start[1] == 0
        and HEADING.match(token.string)
    ]


def late_loggers(source: str) -> list[int]:
    """Return the lines of a module that assign a logger below its first definition."""
    if "getLogger" not in source:
        return []
    first = first_definition(source)
    return [
        node.lineno
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and first is not None
        and node.lineno > first
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).rpartition(".")[2] == "getLogger"
    ]


def test_long_modules_have_no_heading_of_a_second_subject():
    report = {str(path.relative_to(ROOT)): second_headings(path.read_text()) for path in modules(*PACKAGES)}
    assert {path: lines for path, lines in report.items() if lines and path not in EXEMPT} == {}


def test_loggers_are_assigned_above_definitions():
    report = {str(path.relative_to(ROOT)): late_loggers(path.read_text()) for path in modules(*PACKAGES)}
    assert {path: lines for path, lines in report.items() if lines} == {}


def module_with(*lines: str, length: int = MAX_LINES_WITH_HEADINGS + 1) -> str:
    """Return a module with one function, these lines below it, and blank lines up to its length."""
    above = ["import logging", "", "", "def load():", "    return 1", "", "", *lines]
    return "\n".join([*above, *[""] * (length - len(above) - 1), "END = 1"]) + "\n"


@pytest.mark.parametrize(
    "heading",
    [
        "# --- approvals ------------------------------",
        "# -- approvals --",
        "# ==== approvals",
        "# ==========================",
        "##########################",
        "# Approvals ---------------",
    ],
)
def test_heading_of_a_second_subject_is_found_in_a_long_module(heading: str):
    assert second_headings(module_with(heading)) == [heading]


@pytest.mark.parametrize(
    "line",
    [
        "# Approvals count once for each user.",
        "# -1 stands for all rows.",
        "# __init__ is called by Django, **options come from the command line.",
        "LINE = '# --- approvals ---'",
        "TOTAL = 1  # --- approvals ---",
        "class Load:\n    # --- approvals ---\n    total = 1",
        "# A range a--b is read as text -- as documented.",
    ],
)
def test_ordinary_comment_text_or_section_of_a_class_is_not_a_heading(line: str):
    assert second_headings(module_with(line)) == []


def test_heading_is_permitted_in_a_short_module_and_above_the_first_definition():
    assert second_headings(module_with("# --- approvals ---", length=MAX_LINES_WITH_HEADINGS)) == []
    assert second_headings("# --- constants ---\n" + module_with()) == []


@pytest.mark.parametrize(
    "line",
    [
        "logger = logging.getLogger(__name__)",
        "log: logging.Logger = logging.getLogger('loads')",
        "log = getLogger(__name__)",
    ],
)
def test_logger_below_a_definition_is_found(line: str):
    assert late_loggers(module_with(line)) == [8]


def test_logger_above_the_definitions_or_within_one_is_not_late():
    assert late_loggers("log = logging.getLogger(__name__)\n" + module_with("log.info('loaded')")) == []
    assert late_loggers("def load():\n    log = logging.getLogger(__name__)\n") == []
