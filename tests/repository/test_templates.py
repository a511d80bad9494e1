"""Tests of rules that hold for the text of every template."""

import re
from pathlib import Path

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"


def test_headings_of_tables_have_a_scope():
    heading = re.compile(r"<th(?=[\s>])(?![^>]*\sscope=)[^>]*>")
    texts = {str(path.relative_to(TEMPLATES)): path.read_text() for path in TEMPLATES.rglob("*.html")}
    assert {name: headings for name, text in texts.items() if (headings := heading.findall(text))} == {}
