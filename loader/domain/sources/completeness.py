"""Completeness of an endpoint's pages: when to ask for another page, and the proof that all records came.

Whatever the API claims of its size is held against the pages. A contradiction refuses the delivery. Pages without a
claim and without an explicit end are *unproven*: they are loaded, but no key is closed because they lack it.

========================  =====================================================================
proof                     because
========================  =====================================================================
one request               without paging the answer is whole, unless it claims to be a part, or has exactly as
                          many records as were asked for
explicit end              ``has_more_path`` is false, a page has no next link after others had one, or ``next_path``
                          is there without a value
number                    as many records, or pages, came as the API claims
========================  =====================================================================

A page with fewer records than were asked for is no proof, since the server may limit the size of pages. Nor is a page
without records: records that the caller may not see are often left out after the pages were cut.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from elevata.core.words import counted
from loader.contract.refusals import Refusal
from loader.domain.sources.answer_claims import Claim, Claims
from metadata.domain.sources.option_kinds import TRUSTED
from metadata.domain.sources.rest_addresses import parameters_of

BY_POSITION = ("page", "offset")
BY_REFERENCE = ("cursor", "next_url")
# Query parameters for the number of records.
_SIZE = re.compile(
    r"\$?(limit|top|take|first|rows|size|count|results?|(per|page)[_-]?(page|size|limit)|page\[(size|limit)\]|"
    r"max[_-]?(results|records|items)?)",
    re.IGNORECASE,
)
INCOMPLETE_HINT = (
    "Nothing was loaded. Correct the paging options of the source, or run again. If the API counts records that it "
    "does not deliver, give the source the option complete: trusted."
)


@dataclass(frozen=True)
class PageFacts:
    """Facts of one page.

    ``records`` is their number, ``repeated`` the number of those that the page before has, too. ``total`` and ``more``
    are the values at ``total_path`` and ``has_more_path``. ``names_next``: the document has a member at ``next_path``;
    ``has_next``: it refers to a next page.
    """

    records: int
    repeated: int = 0
    total: int | None = None
    more: bool | None = None
    names_next: bool = False
    has_next: bool = False
    claims: Claims = field(default_factory=Claims)


@dataclass
class Completeness:
    """Count of the pages of an endpoint against what the API claims. ``options`` are those of the source."""

    options: Mapping[str, Any]
    pages: int = 0
    delivered: int = 0
    # Records without those that the page before had, too.
    records: int = 0
    total: int | None = None
    newest: PageFacts = field(default_factory=lambda: PageFacts(0))
    _known_pages: Claim | None = None
    _known_records: Claim | None = None
    _names_next: bool = False
    _had_link: bool = False
    # Contradiction that a trusted source let pass.
    problem: str = ""

    @property
    def is_trusted(self) -> bool:
        return bool(self.options["complete"] == TRUSTED)

    @property
    def _paging(self) -> str:
        return str(self.options["paging"])

    @property
    def _declares_more(self) -> bool:
        return bool(self.options["has_more_path"])

    def take(self, page: PageFacts) -> None:
        """Count a page. Raise Refusal BAD_PAGE for one that reports errors instead of records, or INCOMPLETE."""
        if page.claims.failure and not page.records:
            hint = "Run again. If it happens again, correct the options of the source."
            raise Refusal("BAD_PAGE", f"has no records, and reports errors at {page.claims.failure}", hint=hint)
        self.pages, self.newest = self.pages + 1, page
        self.delivered += page.records
        self.records += page.records - page.repeated
        self._check_claims(page)
        if page.total or (page.total is not None and (page.records or self.total is None)):
            self.total = page.total
        if page.claims.records and (page.records or page.claims.records.value):
            self._known_records = page.claims.records
        self._known_pages = page.claims.pages or self._known_pages
        self._names_next |= page.names_next
        self._had_link |= page.claims.following is not None
        self._refuse_total_of_records(page)

    def _check_claims(self, page: PageFacts) -> None:
        """Refuse a page with errors, and a number that became smaller, as it does when rows move between pages."""
        if page.claims.failure == "errors":
            self._contradict("reports errors beside its records")
        if self._paging not in BY_POSITION:
            return
        place, known, claim = self.options["total_path"], self._known_records, page.claims.records
        changes = [(self.total, page.total, place)]
        if claim and known and not place and not _is_count(claim):
            changes.append((known.value, claim.value, claim.place))
        for before, after, shown in changes:
            is_told = page.records or after  # Beyond the last record, some APIs count none.
            if before is not None and after is not None and after < before and is_told:
                self._contradict(f"claims {after:,} at {shown} after {before:,}: rows may have moved between pages")

    def _contradict(self, problem: str) -> None:
        if not self.is_trusted:
            raise Refusal("INCOMPLETE", problem, hint=INCOMPLETE_HINT)
        self.problem = self.problem or problem

    def _refuse_total_of_records(self, page: PageFacts) -> None:
        """Refuse a total of pages that is the number of records: pages without records would be asked for."""
        total = self.total
        if self._paging == "page" and total and not page.records and total == self.delivered > self.pages:
            raise Refusal(
                "BAD_PAGE",
                f"has no records, and {counted(total, 'record')} came before it: total_path may count records",
                hint="With paging page, total_path is the number of pages. Leave it out if the API has the number of "
                "records only.",
            )

    @property
    def continues(self) -> bool:
        """Return True if another page is to be asked for."""
        page = self.newest
        match self._paging:
            case "page":
                if self.total is not None:
                    return self.pages < self.total or page.more is True
                return page.more if page.more is not None else page.records > 0
            case "offset":
                if not page.records:
                    return page.more is True
                if self.total is not None:
                    return self.records != self.total or page.more is True
                return page.more is not False
            case "cursor" | "next_url" | "link":
                return page.has_next and page.more is not False
        return False

    def finish(self) -> None:
        """Hold the claims against all pages. Raise Refusal INCOMPLETE for a contradiction."""
        if problem := self._missing_records() or self._missing_pages() or self._claimed_next():
            self._contradict(problem)

    def _missing_records(self) -> str:
        claims = [self._known_records]
        if self.options["total_path"]:
            declared = self.total if self._paging != "page" else None
            claims = [Claim(declared, self.options["total_path"])] if declared is not None else claims
        for claim in claims:
            if claim is not None and claim.value > self.records:
                came = f"{counted(self.records, 'record')} came"
                return f"is the last one: {came}, and the API claims {claim.value:,} at {claim.place}"
        return ""

    def _missing_pages(self) -> str:
        claim = self._known_pages
        if claim is None or claim.value <= self.pages or self._counts_match:
            return ""
        return f"is the last one of {counted(self.pages, 'page')}, and the API claims {claim.value:,} at {claim.place}"

    def _claimed_next(self) -> str:
        claims, more = self.newest.claims, self.newest.more
        if more or (more is None and claims.more is not None and claims.more.value):
            place = self.options["has_more_path"] if more else claims.more.place if claims.more else ""
            return f"is the last one, and the API claims that more follow at {place}"
        is_declared = self._names_next and self._paging in BY_REFERENCE
        if claims.following is None or more is False or claims.more is not None or is_declared:
            return ""
        return f"is the last one, and refers to a next page at {claims.following.place}"

    @property
    def _counts_match(self) -> bool:
        declared = self.options["total_path"]
        if declared and self._paging != "page":
            return self.total == self.records
        claim = self._known_records
        return claim is not None and not _is_count(claim) and claim.value == self.records

    def doubt(self) -> str:
        """Return the reason why pages without a contradiction may not be all; empty if they are proven complete.

        Sources whose option ``complete`` is trusted are not doubted.
        """
        if self.is_trusted or self._declares_more or self._counts_match:
            return ""
        if self._paging in ("none", "link"):
            is_full = self.pages == 1 and not self._is_ended and self.delivered in self._sizes
            return f"exactly {counted(self.delivered, 'record')} came, as many as were asked for" if is_full else ""
        if self._paging in BY_REFERENCE:
            return "" if self._is_ended else self._doubt_of_reference()
        if self._paging == "page" and self.total is not None:
            return ""
        if self._is_ended or self._had_link or self._known_pages is not None:
            return ""
        if self.total is not None:
            return f"{counted(self.records, 'record')} came, and total_path has {self.total:,}"
        return "the last page has no records, and the API does not say how many there are"

    def _doubt_of_reference(self) -> str:
        place, other = self.options["next_path"], self.newest.claims.following
        if not self._names_next:
            return f"no page has {place} (next_path)"
        return f"the last page has none at {place}, and refers to a next page at {other.place}" if other else ""

    @property
    def _sizes(self) -> set[int]:
        """Return the numbers of records that the request asks for."""
        given = parameters_of(self.options["parameters"]) or ()
        sizes = {int(value) for name, value in given if _SIZE.fullmatch(name) and value.isascii() and value.isdigit()}
        return sizes | ({self.options["page_size"]} if self.options["page_size"] else set()) - {0}

    @property
    def _is_ended(self) -> bool:
        claim = self.newest.claims.more
        return claim is not None and not claim.value


def _is_count(claim: Claim) -> bool:
    """Return True for a member ``count``, which may be the number of a page's records."""
    return claim.place.rpartition(".")[2].lower() == "count"
