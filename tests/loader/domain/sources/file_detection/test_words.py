"""Detected words for true, false and no value."""

import pytest

from loader.domain.sources.file_detection.null_words import detect_null_string
from loader.domain.sources.file_detection.truth_words import detect_truth_words
from tests.loader.domain.sources.file_detection.detected_text import detected


def test_truth_words_that_need_no_option_have_none():
    assert detect_truth_words({"a": ["yes", "No"]}) == ({}, [])
    assert detect_truth_words({"a": ["Ja", "nein"]})[0] == {"true_words": "ja", "false_words": "nein"}
    assert detect_truth_words({"a": ["J", "N"], "b": ["true", "false"]})[0] == {
        "true_words": "j, true",
        "false_words": "n, false",
    }


@pytest.mark.parametrize(
    "values", [["N", "S"], ["si", "no"], ["ON", "OFF"], ["J", "N"], ["Y", "N"], ["t", "f"], ["o", "n"]]
)
def test_words_that_may_be_codes_are_asked(values: list[str]):
    options, questions = detect_truth_words({"a": values})
    assert {question.option: question.candidates for question in questions} == {
        "true_words": (options["true_words"], None),
        "false_words": (options["false_words"], None),
    }


def test_words_of_two_languages_that_contradict_each_other_are_asked():
    options, questions = detect_truth_words({"a": ["ja", "nein"], "b": ["n", "o"], "c": ["s", "n"]})
    assert options["true_words"].startswith("ja")
    assert [question.option for question in questions] == ["true_words", "false_words"]


@pytest.mark.parametrize(
    ("columns", "word"),
    [
        ({"a": ["1.5", "NA", "2"]}, "NA"),
        ({"a": ["1.5", "NA", "2"], "b": ["x", "NA", "why"]}, "NA"),
        ({"a": ["2024-01-31", "NULL"]}, "NULL"),
        ({"a": ["ja", "NULL", "nein"]}, "NULL"),
        ({"a": ["17", "k.A."]}, "k.A."),
        ({"a": ["5:31", "--"]}, "--"),
        ({"a": ["106442", ".."]}, ".."),
        ({"a": ["x", "\\N", "why"]}, "\\N"),
        ({"a": ["Oslo", "NULL", "Bonn"], "b": ["2024-01-31", "NULL"]}, "NULL"),
        ({"a": ["AF", "NA", "DE"]}, None),
        ({"a": ["10.0.0.1", "unknown", "10.0.0.2"]}, None),
        ({"a": ["ann@example.org", "none"]}, None),
        ({"a": ["x", "-", "why"]}, None),
        ({"a": ["", "x"]}, None),
    ],
)
def test_word_for_no_value_is_that_among_typed_values(columns: dict, word: str | None):
    assert detect_null_string(columns) == ({"null_string": word} if word else {}, [])


@pytest.mark.parametrize(
    ("columns", "candidates"),
    [
        ({"a": ["5", "-", "7"]}, ("-", None)),
        ({"a": ["5", ".", "7"]}, (".", None)),
        ({"a": ["5.5", "NaN"]}, ("NaN", None)),
        ({"a": ["5", "NULL", "7"], "b": ["x", "\\N", "why"]}, ("NULL", "\\N", None)),
        ({"a": ["5", "NA"], "b": ["AF", "NA", "DE"]}, ("NA", None)),
        ({"a": ["5", "unknown"], "b": ["red", "unknown"]}, ("unknown", None)),
        ({"a": ["Ann", "NULL"]}, ("NULL", None)),
        ({"a": ["ja", "k.A.", "nein"]}, ("k.A.", None)),
        ({"a": [" Private", " ?"]}, (" ?", None)),
        ({"a": ["5", "NA"], "b": ["EMEA", "NA", "APAC"]}, ("NA", None)),
        ({"a": ["5", "None"], "b": ["Full", "None", "Partial"]}, ("None", None)),
        ({"a": ["Yes", "No", "N/A"]}, ("N/A", None)),
    ],
)
def test_word_for_no_value_that_may_be_a_value_is_asked(columns: dict, candidates: tuple):
    options, (question,) = detect_null_string(columns)
    assert (options, question.candidates) == ({"null_string": candidates[0]}, candidates)


def test_columns_with_a_word_for_no_value_keep_their_types():
    result = detected("id,born,ok,v\n1,NA,ja,1.5\n2,31.12.2024,NA,NA\n3,30.12.2024,nein,2.5\n")
    assert result.options == {
        "date_format": "%d.%m.%Y", "true_words": "ja", "false_words": "nein", "null_string": "NA",
    }  # fmt: skip
    assert [str(column.type) for column in result.columns] == ["integer", "date", "boolean", "float"]
