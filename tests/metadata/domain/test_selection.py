"""Tests of the selection of datasets by words."""

import pytest

from metadata.domain.bulk_edits import MOST_ROWS
from metadata.domain.selection import MAX_WORDS, Node, NothingSelected, select_nodes

NODES = [
    Node("a", "raw.orders", "raw"),
    Node("b", "rawcore.orders", "rawcore", frozenset({"sales"})),
    Node("c", "serving.totals", "serving", frozenset({"sales"})),
    Node("d", "serving.people", "serving"),
]
WAITS_FOR = {"b": ["a"], "c": ["b"], "d": []}


@pytest.mark.parametrize(
    ("select", "exclude", "keys"),
    [
        ("serving.totals", "", "c"),
        ("SERVING.totals", "", "c"),
        ("serving.*", "", "cd"),
        ("tag:sales", "", "bc"),
        ("layer:serving raw.orders", "", "acd"),
        ("+serving.totals", "", "abc"),
        ("raw.orders+", "", "abc"),
        ("+rawcore.orders+", "", "abc"),
        ("+serving.totals", "layer:raw", "bc"),
        ("*", "tag:sales", "ad"),
        ("raw.orders+", "rawcore.orders+", "a"),
    ],
)
def test_selection_words_match_names_tags_layers_and_dependencies(select, exclude, keys):
    assert select_nodes(NODES, WAITS_FOR, select, exclude) == set(keys)


@pytest.mark.parametrize("word", ["serving.nothing", "tag:", "layer:gold", "+x.y"])
def test_a_word_that_selects_nothing_is_refused_by_name(word):
    with pytest.raises(NothingSelected) as refused:
        select_nodes(NODES, WAITS_FOR, f"serving.* {word}")

    assert word in refused.value.message


def test_a_mistyped_word_is_refused_with_a_suggestion():
    name = max(node.name for node in NODES)
    with pytest.raises(NothingSelected) as refused:
        select_nodes(NODES, WAITS_FOR, f"+{name}s")
    assert refused.value.hint.startswith("did you mean ")
    assert name in refused.value.hint


def test_selection_text_fits_the_names_of_a_full_list():
    assert MOST_ROWS * len(f"serving.{'n' * 180} ") <= MAX_WORDS
