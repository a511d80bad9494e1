"""Attacks with long texts on which a regular expression could need quadratic time."""

import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from elevata.core.errors import ProductError
from elevata.core.spreadsheets import csv_text
from elevata.web.templatetags.elevata import highlight
from loader.domain.reference.values import DoesNotFit, typed
from loader.domain.spark_messages import without_quoted_values
from metadata.domain.models.statement import parse_model
from metadata.domain.sources.option_kinds import columns_of
from metadata.domain.sql import MAX_LENGTH, check_expression
from metadata.domain.types import parse

# At this length a search from each character takes 10 seconds and more.
LENGTH = 60_000
# Length limit of an expression.
LONGEST = MAX_LENGTH - 100
# Processor time of the reading thread: those that earlier tests left behind may still work.
SECONDS = 2.0

TEXTS: dict[str, tuple[Callable[[str], object], str]] = {
    "number in a spreadsheet": (lambda text: csv_text(["a"], [[text]]), "-" + "1" * LENGTH + "x"),
    "number of a delivery": (lambda text: typed(text, parse("float")), "1" * LENGTH + "x"),
    "open placeholders of a model": (parse_model, "SELECT 1 AS a -- " + "{" * LENGTH),
    "blanks in a placeholder of a model": (parse_model, "SELECT {{" + " " * LENGTH + "x AS a"),
    "open placeholders of an expression": (check_expression, "{" * LONGEST),
    "blanks in a placeholder of an expression": (check_expression, "{{" + " " * LONGEST + "x"),
    "blanks after a moment": (check_expression, "cast('now" + " " * LONGEST + "!' AS date)"),
    "open comments": (highlight, "/*" * LENGTH),
    "open placeholders": (highlight, "{" * LENGTH),
    "open text": (highlight, "\\'" * LENGTH),
    "open names": (highlight, "`" + "\\`x" * LENGTH),
    "positions of columns": (columns_of, "a" * LENGTH),
    "trace of an exception": (
        without_quoted_values,
        "[CAST_INVALID_INPUT] The value\n" + " " * LENGTH + "!",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_long_text_is_read_in_time(name: str):
    read, text = TEXTS[name]
    start = time.thread_time()
    with suppress(ProductError, DoesNotFit):
        read(text)
    assert time.thread_time() - start < SECONDS
