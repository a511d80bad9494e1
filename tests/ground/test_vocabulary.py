"""Tests of the code's wording: docstrings do not open with a question word, and module names are nouns."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from elevata.bootstrap.places import ROOT

FOLDERS = ("elevata", "metadata", "architecture", "loader", "bench", "tests")
QUESTION = re.compile(r"(what|whether|how|who|whose|whom|which|where|when|why)\b", re.IGNORECASE)
# Participles and stray verbs say what happened to a thing, not what it is.
BANNED_MODULES = {
    *("described", "found", "gone", "hashed", "holding", "kept", "looked", "making", "noted", "noting"),
    *("parsed", "shown", "telling", "touched", "undone", "looks", "followed", "rehearsed", "drifting"),
}
PRODUCT = ("elevata", "metadata", "architecture", "loader")


def modules(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from (path for path in sorted((ROOT / folder).rglob("*.py")) if "migrations" not in path.parts)


def questions(source: str) -> list[str]:
    """Return the first lines of docstrings that open with a question word."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = (ast.get_docstring(node) or "" for node in ast.walk(ast.parse(source)) if isinstance(node, documented))
    return [text.splitlines()[0] for text in texts if QUESTION.match(text)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_docstring_opens_with_a_question(folder: str):
    found = {str(path.relative_to(ROOT)): questions(path.read_text()) for path in modules(folder)}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_a_question_is_found_wherever_it_is_written():
    source = '"""What this is."""\nclass A:\n    """A thing."""\n    def b(self):\n        """Whether it is."""\n'
    assert questions(source) == ["What this is.", "Whether it is."]


def test_modules_are_named_by_nouns():
    assert [str(path.relative_to(ROOT)) for path in modules(*PRODUCT) if path.stem in BANNED_MODULES] == []
