"""Detection of names, and rules that all parts of detection follow."""

from pathlib import Path

import pytest

from loader.domain.sources.file_detection.detect import detect_csv, value_questions
from loader.domain.sources.file_detection.file_names import dated_name
from loader.domain.sources.file_detection.model import notes_of
from loader.domain.sources.file_detection.personal_columns import personal_reason
from tests.loader.domain.sources.file_detection.detected_text import detected


@pytest.mark.parametrize("name", ["geb.", "geb", "geboren", "geboren_am", "geburt", "birthdt"])
def test_dates_of_birth_are_likely_personal(name: str):
    assert "a date of birth" in personal_reason(name, ())


@pytest.mark.parametrize(
    "values",
    [["J", "N"], ["31.12.24"], ["01.02.2024"], ["2-", "3"], ["12 enero 2026"]],
    ids=["words", "years", "days", "signs", "months"],
)
def test_more_than_three_columns_are_named_by_the_first_ones(values: list[str]):
    columns = dict.fromkeys("abcde", values)
    _, questions, unread = value_questions(columns)
    sentences = [question.reason for question in questions] or notes_of(unread)
    assert "a, b, c …" in sentences[-1]
    assert not any("d" in sentence.split("…")[0].split() for sentence in sentences)


@pytest.mark.parametrize(
    ("name", "pattern", "short"),
    [
        ("kunden_2026-11-01.csv", "kunden_*.csv", "kunden"),
        ("in/kunden_20261101.csv.gz", "in/kunden_*.csv.gz", "kunden"),
        ("2026-11_sales.csv", "*_sales.csv", "sales"),
        ("orders-2026-11-01T1200-full.csv", "orders-*-full.csv", "orders_full"),
        ("orders_4711.csv", "", "orders_4711"),
        ("kunden.csv", "", "kunden"),
    ],
)
def test_dates_in_names_become_a_pattern(name: str, pattern: str, short: str):
    assert dated_name(name) == (pattern, short)


def test_names_of_columns_follow_one_rule():
    result = detected("KundenNr;Name;Straße;Umsatz €;PLZ\n1;a;b;2;3\n2;c;d;4;5\n")
    assert [column.target_name for column in result.columns] == ["kunden_nr", "name", "strasse", "umsatz", "plz"]


def test_likely_personal_columns_have_a_reason():
    assert "an e-mail address" in personal_reason("contact", ["ada@example.org", "bob@example.org"])
    assert "a name of a person" in personal_reason("Vorname", [])
    assert personal_reason("amount", ["1", "2"]) == ""


def test_module_is_pure_and_keeps_no_values():
    folder = Path(detect_csv.__code__.co_filename).parent
    texts = {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.py")}
    assert not [name for name, text in texts.items() if "django" in text or "cache" in text]
