"""Detected formats of dates and times."""

import pytest

from loader.domain.sources.file_detection.cells import DATE, kind_of
from loader.domain.sources.file_detection.detect import value_questions
from loader.domain.sources.file_detection.times import detect_time_formats, unread_dates
from tests.loader.domain.sources.file_detection.detected_text import detected

FULL = ["31.12.2024", "30.11.2024"]


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (["2026-01-31"], {}),
        (["2026-01-31 10:00:00"], {}),
        (["13.02.2026"], {"date_format": "%d.%m.%Y"}),
        (["1.2.2026", "25.12.2026"], {"date_format": "%-d.%-m.%Y"}),
        (["12/25/2026"], {"date_format": "%m/%d/%Y"}),
        (["12-Jan-2026"], {"date_format": "%d-%b-%Y"}),
        (["31.12.2026 23:59"], {"timestamp_format": "%d.%m.%Y %H:%M"}),
        (["12/31/2026 11:59 PM"], {"timestamp_format": "%m/%d/%Y %I:%M %p"}),
        (["12. Jan. 2026", "03. Mai 2026"], {"date_format": "%d. %b %Y"}),
        (["5. März 2026", "24. Dezember 2026"], {"date_format": "%-d. %B %Y"}),
        (["03 févr. 2026", "14 août 2026"], {"date_format": "%d %b %Y"}),
        (["3 mars 2026", "14 juillet 2026"], {"date_format": "%-d %B %Y"}),
        (["Jan. 5, 2026", "May 12, 2026"], {"date_format": "%b %-d, %Y"}),
    ],
)
def test_formats_of_dates_that_values_show(values: list[str], options: dict):
    assert detect_time_formats({"a": values}, is_american=False) == (options, [])


@pytest.mark.parametrize(
    ("values", "formats"),
    [
        (["31.12.26", "01.02.69"], (None, "%d.%m.%y")),
        (["12/31/26"], (None, "%m/%d/%y")),
        (["01/02/26"], (None, "%d/%m/%y", "%m/%d/%y")),
        (["12-JAN-26"], (None, "%d-%b-%y")),
        (["98-12-31"], (None, "%y-%m-%d")),
    ],
)
def test_century_of_years_of_two_digits_is_asked(values: list[str], formats: tuple):
    options, questions = detect_time_formats({"day": values}, is_american=False)
    assert options == {}
    assert [question.option for question in questions] == ["date_format", "first_year"]
    assert (questions[0].candidates, questions[1].candidates) == (formats, (1970, 1930, 2000, 1900))


def test_examples_show_a_year_of_two_digits_in_each_century():
    _, (_, century) = detect_time_formats({"geburtstag": ["31.12.26", "01.02.85"]}, is_american=False)
    assert century.candidates == (1930, 1900, 1970, 2000)
    assert century.examples[0] == "31.12.26 is 31 December 2026"
    assert century.examples[1] == "31.12.26 is 31 December 1926"


@pytest.mark.parametrize("unsure", [["31.12.24"], ["1.12.24"], ["20241231"]])
def test_unsure_dates_leave_the_format_of_other_columns(unsure: list[str]):
    options, questions = detect_time_formats({"code": unsure, "ordered": FULL, "paid": FULL}, is_american=False)
    assert options == {"date_format": "%d.%m.%Y"}
    assert questions[0].candidates[:2] == ("%d.%m.%Y", None)
    assert questions[0].candidates[2:]
    assert questions[0].reason.startswith("code may have dates")


def test_more_columns_of_unsure_dates_leave_the_format_of_a_sure_one():
    columns = {"v1": ["1.12.24"], "v2": ["1.12.24"], "ordered": FULL, "n1": ["20241231"], "n2": ["20241231"]}
    options, (question, _) = detect_time_formats(columns, is_american=False)
    assert (options, question.candidates[:2]) == ({"date_format": "%d.%m.%Y"}, ("%d.%m.%Y", None))


@pytest.mark.parametrize(
    ("columns", "reasons"),
    [
        (
            {"a": ["2024-12-31"], "c": FULL, "b": ["31.12.24"]},
            (
                "a is written in the standard way, c is not; only one can be read",
                "b may have dates with years of two digits, or other values",
            ),
        ),
        (
            {"a": ["2024-12-31"], "b": ["31.12.24"]},
            (
                "a is written in the standard way, b is not; only one can be read",
                "b may have dates with years of two digits, or other values",
            ),
        ),
        (
            {"a": ["31.12.2024"], "s": ["2024/12/31"], "nr": ["20241231"]},
            ("a, s are written in different formats; only one can be read", "nr may have dates or numbers"),
        ),
        (
            {"a": ["01.02.2024"], "nr": ["20241231"]},
            ("no value of a shows which number is the day", "nr may have dates"),
        ),
        (
            {"v": ["1.12.24"], "nr": ["20241231"], "w": ["1.12.24"], "m": ["20241230"]},
            ("v, w may have dates with years of two digits, or other values", "nr, m may have dates or numbers"),
        ),
    ],
)
def test_every_reason_for_the_question_about_dates_is_given(columns: dict, reasons: tuple):
    _, (question, *_) = detect_time_formats(columns, is_american=False)
    assert [reason for reason in reasons if reason not in question.reason] == []


def test_numbers_that_may_be_dates_do_not_replace_dates_in_the_standard_way():
    options, (question,) = detect_time_formats({"id": ["20241231"], "day": ["2024-12-31"]}, is_american=False)
    assert (options, question.candidates[0]) == ({}, None)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        *[(name, 1970) for name in ("Angebotsdatum", "gebucht_am", "Ergebnisdatum")],
        *[(name, 1930) for name in ("Geburtsdatum", "GebDat", "geb_datum", "birth_date", "DOB", "date_naissance")],
        *[(name, 1930) for name in ("geb.", "geb", "geboren", "geboren_am", "geburt", "birthdt", "kunde_geb_am")],
        ("mail_geburtsdatum", 1930),
        ("kind_of_a_date_of_birthplace", 1970),
    ],
)
def test_last_century_is_proposed_first_for_births(name: str, first: int):
    _, (_, century) = detect_time_formats({name: ["31.12.26"]}, is_american=False)
    assert century.candidates[0] == first


@pytest.mark.parametrize("name", ["voltage", "percentage", "stage", "kandidat", "candidate", "hashtag", "mandat"])
def test_name_with_the_letters_of_a_date_in_another_word_is_none_of_dates(name: str):
    options, (question,) = detect_time_formats({name: ["20241231"]}, is_american=False)
    assert (options, question.candidates) == ({}, (None, "%Y%m%d"))


@pytest.mark.parametrize(
    "name",
    ["day", "order_date", "orderDate", "paydate", "Buchungstag", "Lieferdatum", "datumvon", "date2", "geboren_am"],
)
def test_name_of_dates_makes_dates_of_eight_digits(name: str):
    options, (question,) = detect_time_formats({name: ["20241231"]}, is_american=False)
    assert (options, question.candidates) == ({"date_format": "%Y%m%d"}, ("%Y%m%d", None))


@pytest.mark.parametrize(
    ("value", "candidates"),
    [
        ("12März2024", ("%d%B%Y", "%d%b%Y")),
        ("31DEC2024 10:00", ("%d%b%Y %H:%M",)),
        ("31DEC24", (None, "%d%b%y")),
        ("3janvier2024", ("%-d%B%Y",)),
    ],
)
def test_dates_without_signs_between_their_parts_are_read(value: str, candidates: tuple):
    options, questions = detect_time_formats({"day": [value]}, is_american=False)
    option = "timestamp_format" if ":" in value else "date_format"
    assert options.get(option) == candidates[0]
    assert {question.option: question.candidates for question in questions}.get(option, candidates[:1]) == candidates
    assert kind_of(value) == DATE


@pytest.mark.parametrize("code", ["12ABC2024", "12MAR245", "10AB24"])
def test_code_with_letters_is_no_date(code: str):
    assert kind_of(code) != DATE


def test_dates_with_other_names_of_months_stay_texts_with_a_note():
    columns = {"ordered": FULL, "dia": ["12 enero 2026", "3 marzo 2026"], "v": ["1.12.24"]}
    options, questions = detect_time_formats(columns, is_american=False)
    assert options == {"date_format": "%d.%m.%Y"}
    assert unread_dates(columns) == ("dia",)
    content = "id;dia;ordered\n1;12 enero 2026;31.12.2024\n2;3 marzo 2026;30.11.2024\n"
    result = detected(content)
    assert (result.questions, result.unread_columns) == ((), ("dia",))
    assert result.as_json()["notes"] == ["dia may have dates or numbers in a format that is not read; they stay texts."]


@pytest.mark.parametrize(
    ("columns", "examples"),
    [
        (
            {"a": ["31.12.2024"] * 3_000, "b": ["n/a", "31.12.24"]},
            {
                "%d.%m.%Y": "31.12.2024 is 31 December 2024",
                None: "31.12.24 is a text",
                "%d.%m.%y": "31.12.24 is 31 December 2024",
            },
        ),
        (
            {"a": ["2024-12-31"], "b": ["31.12.2024"]},
            {None: "31.12.2024 is a text", "%d.%m.%Y": "31.12.2024 is 31 December 2024"},
        ),
        (
            {"a": ["31.12.2024"], "nr": ["20241231"]},
            {
                "%d.%m.%Y": "31.12.2024 is 31 December 2024",
                None: "20241231 is a number",
                "%Y%m%d": "20241231 is 31 December 2024",
            },
        ),
    ],
)
def test_each_format_of_dates_has_an_example_that_it_reads(columns: dict, examples: dict):
    _, (question, *_), _ = value_questions(columns, ";")
    assert dict(zip(question.candidates, question.examples, strict=True)) == examples


@pytest.mark.parametrize(
    ("values", "is_american", "formats"),
    [
        (["01.02.2026"], False, ("%d.%m.%Y", "%m.%d.%Y")),
        (["01/02/2026"], True, ("%m/%d/%Y", "%d/%m/%Y")),
        (["01/02/2026"], False, ("%d/%m/%Y", "%m/%d/%Y")),
    ],
)
def test_day_or_month_is_asked_if_no_value_shows_it(values: list[str], is_american: bool, formats: tuple):
    options, questions = detect_time_formats({"a": values}, is_american=is_american)
    assert (options, questions[0].candidates) == ({"date_format": formats[0]}, formats)


def test_another_column_settles_the_order_of_day_and_month():
    columns = {"a": ["01/02/2026"], "b": ["25/12/2026 10:00"]}
    options, questions = detect_time_formats(columns, is_american=True)
    assert (options, questions) == ({"date_format": "%d/%m/%Y", "timestamp_format": "%d/%m/%Y %H:%M"}, [])


def test_order_of_day_and_month_between_other_signs_settles_nothing():
    columns = {"a": ["01.02.2026 10:00"], "b": ["12/25/2026"]}
    options, (question,) = detect_time_formats(columns, is_american=True)
    assert options == {"date_format": "%m/%d/%Y", "timestamp_format": "%d.%m.%Y %H:%M"}
    assert question.candidates == ("%d.%m.%Y %H:%M", "%m.%d.%Y %H:%M")
