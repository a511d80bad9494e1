"""Sentences about how a file is read, and questions with examples."""

import pytest

from loader.domain.sources.file_detection.detect import detect_csv
from loader.domain.sources.file_detection.model import FileSample, Question
from loader.domain.sources.file_detection.questions import asked_questions
from loader.domain.sources.file_detection.sentences import description


def description_of(content: str, name: str = "a.csv", encoding: str = "utf-8") -> str:
    return description(detect_csv(FileSample(name, content.encode(encoding))))


def questions_of(content: str | bytes) -> dict[str, tuple[str, list[tuple[str, str]]]]:
    detected = detect_csv(FileSample("a.csv", content if isinstance(content, bytes) else content.encode()))
    return {
        question.option: (question.text, [(choice.label, choice.example) for choice in question.choices])
        for question in asked_questions(detected.questions)
    }


def test_description_has_format_lines_left_out_and_formats_of_values():
    content = "Liste\nMandant 17\nNr;Wert;Tag;\n1;1.234,5;13.11.2026;\n2;2,5;14.11.2026;\n"
    assert description_of(content, "k_2026-11-01.csv") == (
        "Read as CSV in UTF-8, fields separated by semicolons. "
        "Left out: 2 lines before the header; column 4, which has no name. "
        "Values: numbers like 1.234,56, dates like 31.12.2026. "
        "The name has a date: files like k_*.csv."
    )


def test_description_of_a_usual_file_is_one_sentence():
    assert description_of("id,name\n1,a\n2,b\n") == "Read as CSV in UTF-8, fields separated by commas."


@pytest.mark.parametrize(
    ("content", "option", "text", "choices"),
    [
        (
            "id;seit\n1;01.02.2026\n2;03.04.2026\n",
            "date_format",
            "How are dates written?",
            [
                ("DD.MM.YYYY", "01.02.2026 is 1 February 2026"),
                ("MM.DD.YYYY", "01.02.2026 is 2 January 2026"),
            ],
        ),
        (
            "id,value\n1,1.234\n2,5.678\n",
            "decimal_separator",
            "Which sign comes before the decimals?",
            [("point", "1.234 is 1.234"), ("comma", "1.234 is 1234")],
        ),
        (
            "id,day\n1,20240101\n2,20241231\n",
            "date_format",
            "How are dates written?",
            [
                ("YYYYMMDD", "20240101 is 1 January 2024"),
                ("In the standard way, or as other values", "20240101 is a number"),
            ],
        ),
        (
            "name\nKöln\n".encode("latin-1"),
            "encoding",
            "Which character set is the file written in?",
            [("windows-1252", "Köln"), ("ISO-8859-15", "Köln"), ("windows-1250", "Köln")],
        ),
        (
            "id,v\n1,-\n2,5\n",
            "null_string",
            "Which text stands for no value?",
            [("-", "- is NULL"), ("None, the values are texts", "- is a text")],
        ),
        (
            'a,b\n"1,2\n',
            "quote",
            "Are there quotes around fields?",
            [("No", '"1 | 2'), ('Yes, "', "1,2")],
        ),
    ],
)
def test_question_has_an_example_of_the_file_for_each_choice(content, option: str, text: str, choices: list):
    assert questions_of(content)[option] == (text, choices)


def test_answer_about_decimals_sets_the_separator_of_thousands_too():
    detected = detect_csv(FileSample("a.csv", b"id,value\n1,1.234\n2,5.678\n"))
    (question,) = asked_questions(detected.questions)
    assert [dict(choice.options) for choice in question.choices] == [
        {"decimal_separator": ".", "thousands_separator": None},
        {"decimal_separator": ",", "thousands_separator": "."},
    ]


def test_answer_about_words_for_true_sets_those_for_false_too():
    detected = detect_csv(FileSample("a.csv", b"id,ok\n1,Y\n2,N\n"))
    (question,) = asked_questions(detected.questions)
    assert [(choice.label, dict(choice.options)) for choice in question.choices] == [
        ("y", {"true_words": "y", "false_words": "n"}),
        ("None, the values are texts", {"true_words": None, "false_words": None}),
    ]


@pytest.mark.parametrize(
    ("skips", "reason", "options"),
    [
        ((1, 0), "line 2 may be names", [{"header": True, "skip_lines": 1}, {"header": False, "skip_lines": 0}]),
        ((2, 1, 0), "line 2 may be names", [{"header": True}, {"header": False}]),
        ((1, 0), "line 1 may be a title", [{"header": True}, {"header": False}]),
    ],
)
def test_answer_decides_another_question_with_the_same_reason_and_as_many_candidates(skips, reason: str, options: list):
    questions = [Question("header", (True, False), "line 2 may be names"), Question("skip_lines", skips, reason)]
    first, *others = asked_questions(questions)
    assert [dict(choice.options) for choice in first.choices] == options
    assert [question.option for question in others] == ([] if len(options[0]) == 2 else ["skip_lines"])
