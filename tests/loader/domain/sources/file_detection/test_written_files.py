"""Detected options of generated CSV files: as written, or asked."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loader.domain.sources.file_detection.detect import detect_csv
from loader.domain.sources.file_detection.model import FileSample
from metadata.domain.sources.reading_options import check_options
from tests.loader.domain.sources.file_detection.found_files import FILES, Found
from tests.loader.domain.sources.file_detection.written_files import AFTER, BEFORE, Written, write

ENCODINGS = ("UTF-8", "windows-1252", "ISO-8859-15", "UTF-16")
DELIMITERS = (",", ";", "\t", "|")
SEPARATORS = ((".", ""), (",", ""), (",", "."), (".", ","), (",", " "), (".", "'"))
DATES = ("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%b-%Y")


def wrong(written: Written) -> dict[str, tuple]:
    """Return the options that are neither detected as written nor asked."""
    detected = detect_csv(FileSample("customers.csv", written.content))
    check_options("csv", detected.options)
    questions = {question.option: question.candidates for question in detected.questions}
    names = {*written.options, *detected.options}
    return {
        name: (written.options.get(name), detected.options.get(name))
        for name in names
        if written.options.get(name) != detected.options.get(name)
        and written.options.get(name) not in questions.get(name, ())
    }


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(ENCODINGS),
    st.sampled_from(DELIMITERS),
    st.sampled_from(SEPARATORS),
    st.sampled_from(DATES),
    st.sampled_from((0, 1, 2)),
    st.sampled_from(BEFORE),
    st.sampled_from(AFTER),
    st.integers(3, 60),
    st.integers(0, 1_000),
)
def test_written_options_are_detected_or_asked(
    encoding, delimiter, separators, dates, header, before, after, rows, seed
):
    decimal, thousands = separators
    written = write(
        encoding=encoding,
        delimiter=delimiter,
        decimal=decimal,
        thousands=thousands,
        dates=dates,
        header=header,
        before=before,
        after=after,
        rows=rows,
        seed=seed,
    )
    assert wrong(written) == {}


def test_sixty_written_files_are_detected_or_asked_in_every_option():
    every = list(itertools.product(DELIMITERS, SEPARATORS, DATES, (0, 1, 2), BEFORE, AFTER))
    right, faults = 0, []
    files = every[:: len(every) // 60]
    for number, (delimiter, (decimal, thousands), dates, header, before, after) in enumerate(files):
        written = write(
            encoding=ENCODINGS[number % 4],
            delimiter=delimiter,
            decimal=decimal,
            thousands=thousands,
            dates=dates,
            header=header,
            before=before,
            after=after,
            seed=number,
        )
        detected = detect_csv(FileSample("customers.csv", written.content))
        faults += [fault] if (fault := wrong(written)) else []
        right += {**detected.options, "encoding": ""} == {**written.options, "encoding": ""}
    assert (faults, right >= 58) == ([], True)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_example_file_is_detected_or_asked_in_every_option(file: Found):
    assert file.wrong() == []
