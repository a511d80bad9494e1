"""Tests of the documentation's links and paths: each names an existing file, and a link a heading in it."""

import re
import subprocess
from pathlib import Path

import pytest

from elevata.bootstrap.places import ROOT

PAGES = sorted(subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True).stdout.split())
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_to_a_file_and_a_heading(name: str):
    page, broken = ROOT / name, []
    for link in LINK.findall(page.read_text()):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (page.parent / path) if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_module_of_the_layout_exists():
    page = (ROOT / "docs" / "understand" / "layout.md").read_text()
    missing = [path for path in re.findall(r"`(\w+/[\w/]+\.py)`", page) if not (ROOT / path).is_file()]
    assert missing == []
