"""Number of queries of each page with little and with three times as much data, limited by its baseline.

``REMAKE_BASELINES=1 pytest -m nightly tests/elevata/web/test_query_baselines.py`` rewrites the file with little data.
"""

import json
import os
from pathlib import Path

import pytest

from bench.web.control import fill
from bench.web.pages import pages, signed_in, statements
from bench.web.size import SMALL, THRICE, Size
from elevata.audit.services import chain

pytestmark = pytest.mark.django_db

BASELINES = Path(__file__).with_name("query_baselines.json")
# Rebuilds reports within a time limit, so that its number of queries depends on the machine.
BY_TIME = ("inbox_rows",)


def count_queries(size: Size) -> dict[str, int]:
    """Return the number of queries by page for a user with all permissions."""
    control = fill(size)
    client = signed_in(control.people["everything"])
    measured = [page for page in pages(control) if page.route not in BY_TIME]
    chain.seal()  # otherwise the first page that shows a link would seal them
    return {page.name: len(statements(client, page)) for page in measured}


def baselines() -> dict[str, int]:
    return json.loads(BASELINES.read_text())


def excess(counts: dict[str, int]) -> dict[str, str]:
    """Return the pages with more queries than their baseline."""
    allowed = baselines()
    return {
        page: f"{count} queries, {allowed[page]} are known"
        for page, count in counts.items()
        if page in allowed and count > allowed[page]
    }


@pytest.mark.nightly
def test_no_page_needs_more_queries_than_it_did():
    counts = count_queries(SMALL)
    if os.environ.get("REMAKE_BASELINES"):
        BASELINES.write_text(json.dumps(dict(sorted(counts.items())), indent=2) + "\n")
    assert sorted(counts) == sorted(baselines()), "pages came or went: remake the baselines"
    assert excess(counts) == {}


@pytest.mark.full
def test_no_page_needs_more_queries_for_three_times_as_much_data():
    counts = count_queries(THRICE)
    assert sorted(counts) == sorted(baselines()), "pages came or went: remake the baselines"
    assert excess(counts) == {}
