"""Mentions and links in the text of a comment."""

import pytest

from elevata.comments.mentions import Part, candidates, mentioned, parts


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("@ada please look", ["ada"]),
        ("ask @bob, @ada. Then @bob again", ["bob", "ada"]),
        ("(@ada.lovelace)", ["ada.lovelace"]),
        ("write to ada@bob.org", []),
        ("@nobody", []),
        ("@ada@bob.org", []),
    ],
)
def test_users_are_mentioned_by_their_names(text: str, names: list[str]):
    assert mentioned(text, {"ada", "bob", "ada.lovelace"}) == names


def test_mention_prefers_a_user_name_with_a_final_dot():
    assert mentioned("@ada.", {"ada", "ada."}) == ["ada."]
    assert candidates("@ada.") == [("ada.", "ada")]


def test_link_ends_before_the_punctuation_of_its_sentence():
    text = "see https://example.org/a?b=1, please"
    assert list(parts(text, ())) == [
        Part("text", "see "),
        Part("link", "https://example.org/a?b=1"),
        Part("text", ", please"),
    ]


def test_only_known_names_are_marked():
    assert list(parts("@ada and @eve", {"ada"})) == [
        Part("text", ""),
        Part("mention", "@ada"),
        Part("text", " and @eve"),
    ]


@pytest.mark.parametrize("text", ["javascript:alert(1)", "http//x", "@", "@@@", ""])
def test_text_without_mentions_and_links_is_one_text_part(text: str):
    assert [part.kind for part in parts(text, {"ada"})] == ["text"]
