"""Detected separators and negative values of numbers."""

import pytest

from loader.domain.sources.file_detection.detect import value_questions
from loader.domain.sources.file_detection.examples import of_values
from loader.domain.sources.file_detection.null_words import detect_null_string
from loader.domain.sources.file_detection.numbers import detect_numbers, unread_numbers
from tests.loader.domain.sources.file_detection.detected_text import detected


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (["1.5", "0.123"], {}),
        (["1,50", "2,75"], {"decimal_separator": ","}),
        (["1.234,00", "5"], {"decimal_separator": ",", "thousands_separator": "."}),
        (["1,234.50"], {"thousands_separator": ","}),
        (["1 234,5"], {"decimal_separator": ",", "thousands_separator": " "}),
        (["1'234.5"], {"thousands_separator": "'"}),
        (["1.234.567"], {"decimal_separator": ",", "thousands_separator": "."}),
        (["1,234,567"], {"thousands_separator": ","}),
    ],
)
def test_separators_that_values_show(values: list[str], options: dict):
    assert detect_numbers({"a": values}, ";") == (options, [])


def test_thousands_or_decimals_are_asked_if_no_value_shows_it():
    options, questions = detect_numbers({"a": ["1.234", "5.678"]}, ",")
    assert options == {}
    assert [(question.option, question.candidates) for question in questions] == [
        ("decimal_separator", (".", ",")),
        ("thousands_separator", (None, ".")),
    ]


@pytest.mark.parametrize(
    ("columns", "decimals"),
    [
        ({"a": ["1.234", "12345"]}, (".", ",")),
        ({"a": ["1.234", "5", "17", "999"] * 10}, (",", ".")),
        ({"a": ["1.234"], "latitude": ["48.5"]}, (".", ",")),
        ({"a": ["1,234"], "b": ["1 234"]}, (",", ".")),
    ],
)
def test_separator_before_three_digits_is_asked_whichever_is_likelier(columns: dict, decimals: tuple):
    _, questions = detect_numbers(columns, ";")
    assert {question.option: question.candidates for question in questions}["decimal_separator"] == decimals


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (["1.234", "1.5"], {}),
        (["1.234", "1.234.567"], {"decimal_separator": ",", "thousands_separator": "."}),
        (["1.234", "5,5"], {"decimal_separator": ",", "thousands_separator": "."}),
        (["1,234", "0.5"], {"thousands_separator": ","}),
        (["1,234", "1 234"], {"decimal_separator": ",", "thousands_separator": " "}),
    ],
)
def test_values_of_the_same_column_settle_the_separator(values: list[str], options: dict):
    assert detect_numbers({"a": values}, ",") == (options, [])


def test_point_between_commas_separates_decimals_if_another_column_shows_it():
    columns = {"a": ["190.936", "187.262"], "b": ["192.0", "190.94"]}
    assert detect_numbers(columns, ",") == ({}, [])
    assert detect_numbers(columns, ";")[1]


@pytest.mark.parametrize(
    ("values", "marked", "options"),
    [
        (["1,234", "321"], ["45.5%", "7 %"], {"thousands_separator": ","}),
        (["1,234", "321"], ["$1,200.50"], {"thousands_separator": ","}),
        (["1.234", "321"], ["12,50 €"], {"decimal_separator": ",", "thousands_separator": "."}),
    ],
)
def test_amounts_with_a_currency_or_percent_sign_settle_the_separator(values: list, marked: list, options: dict):
    assert detect_numbers({"a": values, "b": marked}, ",") == (options, [])
    assert detect_numbers({"b": marked}, ",") == ({}, [])


def test_days_without_a_year_show_no_decimal_separator():
    amounts = {"Betrag": ["-89,90", "2500,00"]}
    assert detect_numbers({"Buchungstag": ["30.01", "29.01"]} | amounts, ";") == ({"decimal_separator": ","}, [])
    assert detect_numbers({"Kurs": ["30.01", "29.01"]} | amounts, ";")[1]


def test_days_without_a_year_do_not_settle_the_separator_of_amounts():
    options, questions = detect_numbers({"Buchungstag": ["30.01", "29.01"], "Betrag": ["1,234", "2,500"]}, ",")
    assert options == {"thousands_separator": ","}
    assert [question.option for question in questions] == ["decimal_separator", "thousands_separator"]


def test_errors_of_spreadsheets_are_no_other_values_than_numbers():
    values = {"quote": ["1,5", "#DIV/0!", "2,5"]}
    assert detect_numbers(values, ";") == ({"decimal_separator": ","}, [])
    assert detect_null_string(values) == ({"null_string": "#DIV/0!"}, [])


@pytest.mark.parametrize("values", [["44,18,797", "1,234"], ["−5,5", "6,5"], ["5,00 -", "1,25"]])
def test_numbers_that_no_format_reads_stay_texts_with_a_note(values: list[str]):
    assert unread_numbers({"a": values, "b": ["1,234", "5"], "c": [*values, "x"]}) == ("a",)
    result = detected("id;a\n" + "".join(f"{place};{value}\n" for place, value in enumerate(values)))
    assert (str(result.columns[1].type), result.unread_columns) == ("string", ("a",))


def test_another_column_settles_the_separator():
    columns = {"a": ["1.234"], "b": ["2,5"]}
    assert detect_numbers(columns, ";") == ({"decimal_separator": ",", "thousands_separator": "."}, [])


@pytest.mark.parametrize(
    ("values", "options", "candidates"),
    [
        (["12,50-", "15,00"], {"negative_numbers": "trailing"}, ("trailing", None)),
        (["(1,250.00)", "12.50"], {"negative_numbers": "brackets"}, ("brackets", None)),
        (["12,50-", "15,00", "(3,20)"], {"negative_numbers": "trailing"}, ("trailing", "brackets", None)),
        (["- 5,00", "1.234,50"], {"negative_numbers": "spaced"}, ("spaced", None)),
        (["-\u00a01.200", "- 12,50", "3"], {"negative_numbers": "spaced"}, ("spaced", None)),
        (["- 5", "1", "3"], {}, (None, "spaced")),
        (["2-", "1", "3"], {}, (None, "trailing")),
        (["(100)", "(200)"], {}, (None, "brackets")),
        (["(030)", "(040)"], {}, None),
        (["-12.5", "3"], {}, None),
        (["a-", "b"], {}, None),
    ],
)
def test_signs_after_or_around_numbers_are_detected(values: list[str], options: dict, candidates: tuple | None):
    read, questions = detect_numbers({"saldo": values}, ";")
    assert read.get("negative_numbers") == options.get("negative_numbers")
    assert {question.option: question.candidates for question in questions}.get("negative_numbers") == candidates


@pytest.mark.parametrize("codes", [["1.5-", "2.7-"], ["(1.234)", "(2.234)"]])
def test_separators_of_codes_do_not_count_beside_those_of_numbers(codes: list[str]):
    columns = {"code": codes, "more": codes, "amount": ["12,50", "3,75"]}
    options, questions = detect_numbers(columns, ";")
    assert options == {"decimal_separator": ","}
    assert [question.option for question in questions] == ["negative_numbers"]


def test_separators_of_plain_numbers_beside_values_that_may_be_codes_count():
    columns = {"m": ["3.5", "4.7", "5.2-"], "b": ["2,50", "3,75"]}
    _, questions = detect_numbers(columns, ";")
    asked = {question.option: question.candidates for question in questions}
    assert asked["decimal_separator"] == (".", ",")
    assert asked["negative_numbers"] == (None, "trailing")


def test_clear_negative_numbers_decide_over_marks_of_another_column():
    options, questions = detect_numbers({"betrag": ["1.234,50-", "17,00"], "mark": ["2-", "3"]}, ";")
    assert options["negative_numbers"] == "trailing"
    (question,) = (question for question in questions if question.option == "negative_numbers")
    assert question.candidates == ("trailing", None)
    assert question.reason == "mark may have negative numbers, or marks and codes"


def test_kind_of_clear_negative_numbers_comes_before_that_of_marks():
    columns = {"betrag": ["12,50-", "17,00"], "code": ["(1)", "(2)", "(3)"]}
    options, questions = detect_numbers(columns, ";")
    (question,) = (question for question in questions if question.option == "negative_numbers")
    assert (options["negative_numbers"], question.candidates) == ("trailing", ("trailing", "brackets", None))
    assert "code may have negative numbers, or marks and codes" in question.reason


def test_marks_of_two_kinds_stay_texts_until_a_user_answers():
    options, questions = detect_numbers({"mark": ["2-", "3"], "code": ["(1)", "(2)"]}, ";")
    assert "negative_numbers" not in options
    assert questions[0].candidates == (None, "brackets", "trailing")


def test_separators_of_values_that_may_be_codes_count_if_no_number_has_any():
    options, _ = detect_numbers({"saldo": ["12,50-", "3,75-"], "id": ["1", "2"]}, ";")
    assert options == {"decimal_separator": ","}


@pytest.mark.parametrize(
    ("values", "option", "examples"),
    [
        (["a", "12,50-", "15,00"], "negative_numbers", ("12,50- is -12.50", "12,50- is a text")),
        (["1 to 5-", "1.234,50-", "17,00"], "negative_numbers", ("1.234,50- is -1234.50", "1.234,50- is a text")),
        (["(100)", "(200)"], "negative_numbers", ("(100) is a text", "(100) is -100")),
        (["- 12,50", "15,00"], "negative_numbers", ("- 12,50 is -12.50", "- 12,50 is a text")),
        (["(1.250)", "3.125-"], "negative_numbers", ("(1.250) is -1250", "3.125- is -3125", "(1.250) is a text")),
        (["1.234-", "2.345-"], "decimal_separator", ("1.234- is -1234", "1.234- is -1.234")),
    ],
)
def test_negative_numbers_are_examples(values: list[str], option: str, examples: tuple):
    options, questions = detect_numbers({"saldo": values[-2:]}, ";")
    question = next(question for question in questions if question.option == option)
    assert of_values(question, {"saldo": values}, options).examples == examples


@pytest.mark.parametrize(
    ("columns", "option", "examples"),
    [
        ({"d": ["31.12.24"], "n": ["1.234"]}, "decimal_separator", ("1.234 is 1234", "1.234 is 1.234")),
        ({"c": ["€ 2,50"], "a": ["3.5"], "b": ["2,50"]}, "decimal_separator", ("3.5 is 3.5", "3.5 is a text")),
        ({"d": ["31.12.24"], "n": ["1.234"]}, "thousands_separator", ("1.234 is 1234", "")),
        (
            {"a": ["1'234,5"], "b": ["1\u00a0234,5"]},
            "thousands_separator",
            ("1'234,5 is 1234.5", "1\u00a0234,5 is 1234.5"),
        ),
    ],
)
def test_examples_of_separators_are_numbers_as_a_load_reads_them(columns: dict, option: str, examples: tuple):
    _, questions, _ = value_questions(columns, ";")
    assert next(question.examples for question in questions if question.option == option) == examples
