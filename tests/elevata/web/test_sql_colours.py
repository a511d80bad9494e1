"""SQL in colours. No database."""

import html
import re

from hypothesis import given
from hypothesis import strategies as st

from elevata.web.templatetags.elevata import highlight


def test_sql_highlighter_marks_keywords_names_strings_comments_numbers_and_placeholders():
    made = highlight("SELECT `a``b`, 'it''s' -- <why>\nFROM t WHERE x > 1.5 AND y = {{ load_run_id }}")
    assert '<span class="k">SELECT</span>' in made
    assert '<span class="n">`a``b`</span>' in made
    assert '<span class="s">&#x27;it&#x27;&#x27;s&#x27;</span>' in made
    assert '<span class="c">-- &lt;why&gt;</span>' in made
    assert '<span class="d">1.5</span>' in made
    assert '<span class="p">{{ load_run_id }}</span>' in made


@given(st.text())
def test_sql_keeps_every_character_and_lets_no_tag_through(sql: str):
    made = highlight(sql)
    assert html.unescape(re.sub(r"</?span[^>]*>", "", made)) == sql
    assert "<script" not in made
