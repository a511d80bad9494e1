"""Highlighting of SQL."""

import html
import re

from hypothesis import given
from hypothesis import strategies as st

from elevata.web.templatetags.elevata import highlight


def test_sql_highlighter_marks_keywords_names_strings_comments_numbers_and_placeholders():
    highlighted = highlight("SELECT `a``b`, 'it''s' -- <why>\nFROM t WHERE x > 1.5 AND y = {{ load_run_id }}")
    assert '<span class="k">SELECT</span>' in highlighted
    assert '<span class="n">`a``b`</span>' in highlighted
    assert '<span class="s">&#x27;it&#x27;&#x27;s&#x27;</span>' in highlighted
    assert '<span class="c">-- &lt;why&gt;</span>' in highlighted
    assert '<span class="d">1.5</span>' in highlighted
    assert '<span class="p">{{ load_run_id }}</span>' in highlighted


@given(st.text())
def test_sql_highlighter_keeps_every_character_and_escapes_tags(sql: str):
    highlighted = highlight(sql)
    assert html.unescape(re.sub(r"</?span[^>]*>", "", highlighted)) == sql
    assert "<script" not in highlighted
