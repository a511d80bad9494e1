"""Number of queries of each page, small and three times as large: none may need more than its baseline.

``REMAKE_BASELINES=1 pytest -m nightly tests/elevata/web/test_query_baselines.py`` writes the file anew, from the
small one.
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
# Makes reports again, as many as it has patience for: the quicker the machine, the more it asks.
BY_TIME = ("inbox_rows",)


def counted(size: Size) -> dict[str, int]:
    """Queries by page, for somebody who may do everything."""
    control = fill(size)
    client = signed_in(control.people["everything"])
    asked = [page for page in pages(control) if page.route not in BY_TIME]
    chain.seal()  # else the first page that shows a link would do it
    return {page.name: len(statements(client, page)) for page in asked}


def known() -> dict[str, int]:
    return json.loads(BASELINES.read_text())


def more(counts: dict[str, int]) -> dict[str, str]:
    """Pages that need more queries than they are known to."""
    allowed = known()
    return {
        page: f"{count} queries, {allowed[page]} are known"
        for page, count in counts.items()
        if page in allowed and count > allowed[page]
    }


@pytest.mark.nightly
def test_no_page_needs_more_queries_than_it_did():
    counts = counted(SMALL)
    if os.environ.get("REMAKE_BASELINES"):
        BASELINES.write_text(json.dumps(dict(sorted(counts.items())), indent=2) + "\n")
    assert sorted(counts) == sorted(known()), "pages came or went: remake the baselines"
    assert more(counts) == {}


def test_no_page_needs_more_queries_for_three_times_as_much():
    """A page that needs more than it did needs more here, too."""
    counts = counted(THRICE)
    assert sorted(counts) == sorted(known()), "pages came or went: remake the baselines"
    assert more(counts) == {}
