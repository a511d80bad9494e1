"""Tests of the code's wording: docstrings are imperative, terms are the settled ones, module names are nouns."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from elevata.bootstrap.places import ROOT
from elevata.core.installation import PACKAGES
from tests.repository.syntax import definitions

FOLDERS = (*PACKAGES, "bench", "tests")
QUESTION = re.compile(r"(what|whether|how|who|whose|whom|which|where|when|why)\b", re.IGNORECASE)
# Participles and stray verbs describe an event, not a thing.
BANNED_MODULES = {
    *("described", "found", "gone", "hashed", "holding", "kept", "looked", "making", "noted", "noting"),
    *("parsed", "shown", "telling", "touched", "undone", "looks", "followed", "rehearsed", "drifting"),
}


def modules(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from (path for path in sorted((ROOT / folder).rglob("*.py")) if "migrations" not in path.parts)


def questions(source: str) -> list[str]:
    """Return the first lines of docstrings that open with a question word."""
    texts = (ast.get_docstring(node) or "" for node in definitions(source))
    return [text.splitlines()[0] for text in texts if QUESTION.match(text)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_docstring_opens_with_a_question(folder: str):
    report = {str(path.relative_to(ROOT)): questions(path.read_text()) for path in modules(folder)}
    assert {path: lines for path, lines in report.items() if lines} == {}


def test_questions_finds_docstrings_of_modules_and_methods():
    source = '"""What this is."""\nclass A:\n    """A thing."""\n    def b(self):\n        """Whether it is."""\n'
    assert questions(source) == ["What this is.", "Whether it is."]


def test_modules_are_named_by_nouns():
    named = [path for path in modules(*PACKAGES, "tests") if path.stem.removeprefix("test_") in BANNED_MODULES]
    assert [str(path.relative_to(ROOT)) for path in named] == []


# Former terms, and phrases that readers had to read twice.
BANNED_WORDS = re.compile(
    r"\b(somebody|whoever|rehears\w+|governed|way back|took its place|hand in (a|the|this)|person's|come to nothing"
    r"|given up for lost|taken back|put out of use|gone quiet|last heard of|in all\.)\b",
    re.IGNORECASE,
)
BANNED_PHRASES = (
    *("Leave it{%", "Describe it", "Password's variable", "Password until now", "Good for (days)", "What I am told of"),
    *("Look what it has", "Take the source", "Its page", "What is described against", "Look and make", "Of whom"),
    *("Say it with a no", "Written anew", "to be made again", "Look now", "Edit all of it", "Marked is what"),
    *("Failed last time", "as it was seen at", "both sentences", "Describe a column", "Look again", "Ask again"),
    *("nobody looked", "looked at the warehouse", "Keep it<", "Delete it<", "Give it up", "Let it go on", "Let it be"),
    *("still reads it", "Password variable", "You do not have the permission", "ask an administrator.</div>"),
    *("nobody is named", "nobody named", '"not said"', "A change report creates", "Tables change by a change report"),
    *("}} missing", " missing.{%", "stays\n        {% endif"),
)
BANNED_NAMES = re.compile(
    r"rehears|governed|kept_?answer|cannot_?look|_hist_memory|people_who|create_person", re.IGNORECASE
)


# Continuation of a string in the next line.
CONTINUED = re.compile(r"""["']\s*\n\s*[bfr]*["']""")


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each string of a module that is no docstring."""
    tree = ast.parse(path.read_text())
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value


def banned(text: str) -> list[str]:
    """Return the banned words and phrases of a text."""
    return [match[0] for match in BANNED_WORDS.finditer(text)] + [part for part in BANNED_PHRASES if part in text]


def test_templates_use_the_settled_terms():
    templates = sorted((ROOT / "templates").rglob("*.html"))
    report = {str(path.relative_to(ROOT)): banned(path.read_text()) for path in templates}
    assert {path: words for path, words in report.items() if words} == {}


def test_messages_use_the_settled_terms():
    findings = [
        (f"{path.relative_to(ROOT)}:{line}", banned(text))
        for path in modules(*PACKAGES)
        if banned(CONTINUED.sub("", path.read_text()))
        for line, text in strings(path)
        if banned(text)
    ]
    assert findings == []


def test_code_uses_the_settled_names():
    findings = [
        (str(path.relative_to(ROOT)), match[0])
        for path in modules(*PACKAGES)
        for match in BANNED_NAMES.finditer(path.read_text())
    ]
    assert findings == []


def test_banned_words_are_found():
    assert banned("Somebody looked at the warehouse; it is taken back.") == [
        "Somebody",
        "taken back",
        "looked at the warehouse",
    ]


# First words of a phrase that describes the result instead of the action.
FRAGMENT = re.compile(
    r"[^A-Za-z]|[a-z]|(A|An|All|As|Each|Every|Everything|False|For|If|Its|Names|None|Nothing|Of|One|Only|That|The|Their"
    r"|Those|True|Until|With|Without|Keys|Columns|Tables|Rows|Returns|Returned|Raises|Yields|Writes)\b"
)
# Words of docstrings and comments with a settled or plainer alternative (docs: people are users).
PRIVATE_WORDS = re.compile(
    r"\b(people|somebody|anybody|everybody|whoever|whom|came to|comes to|goes by|looked (?!up)|governed|rehears\w+"
    r"|way back|taken back|put out of use|gone quiet|(has|is|are) told"
    r"|stands? (there|in the change log|beside)|hangs? on)\b",
    re.IGNORECASE,
)


def worded_modules() -> Iterator[Path]:
    """Yield the modules whose docstrings and comments must use the settled terms."""
    yield from modules(*PACKAGES, "bench")


def fragments(source: str) -> list[str]:
    """Return the first lines of functions' docstrings that are not imperative."""
    functions = (node for node in definitions(source) if isinstance(node, ast.FunctionDef))
    texts = ((ast.get_docstring(node) or "").splitlines() for node in functions)
    return [lines[0] for lines in texts if lines and FRAGMENT.match(lines[0])]


def private_words(source: str) -> list[str]:
    """Return the private words in docstrings and comments; names in double backquotes are exempt."""
    if not PRIVATE_WORDS.search(source):
        return []
    texts = [ast.get_docstring(node) or "" for node in definitions(source)]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    texts += [token.string for token in tokens if token.type == tokenize.COMMENT]
    return [match[0] for text in texts for match in PRIVATE_WORDS.finditer(re.sub(r"``[^`]*``", "", text))]


def test_docstrings_of_functions_are_imperative():
    texts = {str(path.relative_to(ROOT)): fragments(path.read_text()) for path in worded_modules()}
    assert {path: lines for path, lines in texts.items() if lines} == {}


def test_docstrings_and_comments_use_plain_words():
    texts = {str(path.relative_to(ROOT)): private_words(path.read_text()) for path in worded_modules()}
    assert {path: words for path, words in texts.items() if words} == {}


def test_fragments_and_private_words_are_found():
    source = 'def a():\n    """The rows that people see."""\n    # whoever reads ``people``\n'
    assert fragments(source) == ["The rows that people see."]
    assert private_words(source) == ["people", "whoever"]
