"""Template tags of the parts of pages."""

from typing import Any

import pytest
from django.template import Context, Template
from django.test import RequestFactory

from tests.elevata.web.html import collapsed


def rendered(text: str, **context: Any) -> str:
    return collapsed(Template("{% load elevata %}" + text).render(Context(context)))


def test_head_of_a_table_has_labels_classes_and_hidden_labels():
    assert rendered('{% headings "Run" "Rows|num" before="Choose" after="What to do" %}') == (
        '<thead><tr><th scope="col"><span class="visually-hidden">Choose</span></th><th scope="col">Run</th>'
        '<th scope="col" class="num">Rows</th>'
        '<th scope="col"><span class="visually-hidden">What to do</span></th></tr></thead>'
    )


def test_panel_head_has_its_hint_only_if_there_is_one():
    assert rendered('{% panel_head "Runs" "runs" %}') == '<div class="panel-head"><h2 id="runs">Runs</h2></div>'
    assert '<span class="soft">newest first</span>' in rendered('{% panel_head "Runs" "runs" "newest first" %}')


def test_fact_escapes_its_label_and_value():
    assert rendered('{% fact name "mono" %}{{ name }}{% endfact %}', name="<b>") == (
        '<div><dt>&lt;b&gt;</dt><dd class="mono">&lt;b&gt;</dd></div>'
    )


@pytest.mark.parametrize(
    "text",
    [
        "{% headings value before=value after=value %}",
        "{% panel_head value value value %}",
        "{% fact value value %}{{ value }}{% endfact %}",
        "{% note value symbol=value role=value %}{{ value }}{% endnote %}",
        "{% empty_page value %}{{ value }}{% endempty_page %}",
        "{% nonempty 'p' value value %}{{ value }}{% endnonempty %}",
        "{% tab 'runs' value value value %}",
        "{% sub_tab 'runs' value value value %}",
    ],
)
def test_tags_escape_values(text: str):
    html = rendered(text, value='<b title="x">')
    assert "&lt;b title=&quot;x&quot;&gt;" in html
    assert "<b" not in html
    assert '"x"' not in html


@pytest.mark.parametrize(
    ("arguments", "css", "symbol"),
    [
        ("", "note", "info-circle"),
        ('"warning"', "note note-warning", "alert-triangle"),
        ('"warning" symbol="lock"', "note note-warning", "lock"),
    ],
)
def test_note_has_the_icon_of_its_level_or_another(arguments: str, css: str, symbol: str):
    note = rendered(f"{{% note {arguments} %}}Text{{% endnote %}}")
    assert note.startswith(f'<div class="{css}">')
    assert f"#tabler-{symbol}" in note


def test_empty_block_leaves_no_element():
    assert rendered('{% nonempty "p" "lead-line" %} {% endnonempty %}') == ""
    assert rendered('{% nonempty "p" "lead-line" %}Text{% endnonempty %}') == '<p class="lead-line">Text</p>'


@pytest.mark.parametrize(
    ("address", "current"), [("/runs/", ' aria-current="page"'), ("/runs/1/", ' aria-current="true"')]
)
def test_tab_with_pages_is_current_on_them(address: str, current: str):
    request = RequestFactory().get(address)
    tab = '{% tab "runs" "/runs/" "list" "Runs" has_pages=True %}'
    assert rendered(tab, tab="runs", request=request).startswith(f'<li><a href="/runs/"{current}>')
    assert "aria-current" not in rendered(tab, tab="charts", request=request)
