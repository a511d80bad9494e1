"""Lines of a table: those before the header, the header's, and those after the records."""

import re
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from loader.domain.sources.file_detection.cells import EMPTY, NUMBER, TYPED, kind_of
from loader.domain.sources.file_detection.dialects import Row, width_of
from loader.domain.sources.file_detection.model import Question

_MOST_BEFORE, _MOST_AFTER, _MOST_HEADER_LINES = 60, 30, 4
_TOTALS = re.compile(
    r"\W*(?:(?:grand |sub)?total|totals?|sum|summe|gesamt\w*|zwischensumme|insgesamt|somme|totaal|suma|totale|records?|"
    r"rows?|row count|count|anzahl|ende|end of \w+|eof|source|quelle|fonte|note|notes|hinweis\w*|stand|erstellt\w*|"
    r"generated|created|printed|\(?\d+ (?:rows?|records?|zeilen|sätze|datensätze)\b.*)\b.*",
    re.IGNORECASE,
)
_WORDS = """
    id name date code type status title email phone address city country zip price amount quantity description
    number nr no key user customer year month day value category comment notes currency lat lon latitude longitude
    first last kunde kundennr straße strasse ort plz stadt land datum betrag menge preis artikel bezeichnung vorname
    nachname telefon anrede summe währung konto iban bemerkung nom prénom ville pays adresse prix quantité nombre
    apellido fecha ciudad precio cantidad nazwa data kod cena miasto nome cognome città prezzo url state region
    gender age sex species label class index time timestamp created updated
"""
_NAMES = frozenset(_WORDS.split())
_SUMS = re.compile(
    r"(?:(?:grand |sub)?total|sum|summe|gesamt(?:summe)?|zwischensumme|somme|suma|totale|totaal)\W*", re.IGNORECASE
)
# Rows at each end that may have other kinds than those between, and the number of rows of which few do not matter.
_MOST_UNLIKE, _MANY = 6, 200
_YEAR = re.compile(r"(?:19|20|21)\d\d")
_HAS_DIGIT = re.compile(r"\d")


@dataclass(frozen=True)
class Structure:
    """Lines before the header, records of the header, lines after the records, and the number of fields.

    ``rows`` are the records of the beginning. ``header_lines`` is 0 without a header.
    """

    skip_lines: int = 0
    header_lines: int = 1
    footer_lines: int = 0
    width: int = 1
    header: tuple[tuple[str, ...], ...] = ()
    rows: tuple[Row, ...] = ()
    questions: tuple[Question, ...] = ()


def detect_structure(rows: Sequence[Row], last: Sequence[Row] | None = None) -> Structure:
    """Return the structure of a table by its first records, and its ``last`` ones if the first are not all."""
    width = width_of(rows)
    if width == 0:
        return Structure(rows=tuple(rows), width=0)
    table = _Table(tuple(rows), width)
    start, questions = table.header_start()
    footer, asked = _footer_lines(table, last if last is not None else rows[start.first_record :])
    return Structure(
        start.skip,
        start.header_lines,
        footer,
        width,
        tuple(row.cells for row in start.header),
        _without_footer(rows[start.first_record :], footer if last is None else 0),
        (*questions, *asked),
    )


def _without_footer(rows: Sequence[Row], footer: int) -> tuple[Row, ...]:
    kept = list(rows)
    while kept and not kept[-1].cells:
        kept.pop()
    while kept and footer > 0:
        footer -= kept.pop().lines
    return tuple(kept)


@dataclass(frozen=True)
class _Start:
    """Beginning of a table: lines before it, its header, and the place of its first record."""

    skip: int
    header: tuple[Row, ...]
    first_record: int

    @property
    def header_lines(self) -> int:
        return len(self.header)


@dataclass
class _Table:
    rows: tuple[Row, ...]
    width: int
    kinds: list[str] = field(init=False)
    usual_fill: float = field(init=False)

    def __post_init__(self) -> None:
        fills = [row.filled for row in self.rows if self.fits(row) and row.filled]
        self.usual_fill = statistics.quantiles(fills, n=4)[2] if len(fills) > 1 else float(self.width)
        full = [row for row in self.rows if self.fits(row) and row.filled >= 0.5 * self.usual_fill]
        self.kinds = self._kinds(full)

    def fits(self, row: Row) -> bool:
        return len(row.cells) == self.width or (len(row.cells) == self.width + 1 and not row.cells[-1])

    def _kinds(self, full: Sequence[Row]) -> list[str]:
        """Return the kinds of columns in the rows that have the most kinds, without a few at both ends."""
        bodies = [
            full[start : len(full) - end]
            for start in range(1, min(_MOST_UNLIKE, len(full)))
            for end in range(_MOST_UNLIKE)
            if len(full) - end - start >= max(min(2, len(full) - 1), 0.35 * len(full))
        ]
        best: list[str] = [""] * self.width
        for body in bodies or [full]:
            kinds = [self._kind(body, place) for place in range(self.width)]
            if _count_typed(kinds) > _count_typed(best):
                best = kinds
            if len(full) > _MANY:
                break
        return best

    @staticmethod
    def _kind(body: Sequence[Row], place: int) -> str:
        kinds = Counter(kind_of(row.cells[place]) for row in body)
        del kinds[EMPTY]
        total = sum(kinds.values())
        if not total:
            return EMPTY
        kind, count = kinds.most_common(1)[0]
        return kind if count >= 0.8 * total else ""

    @property
    def typed(self) -> list[int]:
        return [place for place, kind in enumerate(self.kinds) if kind in TYPED]

    def is_narrow(self, row: Row) -> bool:
        """Return True for a line of text beside the table: too few fields, or only the first ones are filled."""
        if row.is_empty:
            return False
        if not self.fits(row) and len(row.cells) != self.width - 1:
            return True
        if not self.fits(row) and row.filled < len(row.cells):
            return True
        filled = [bool(cell.strip()) for cell in row.cells]
        is_left = not any(later and not earlier for earlier, later in zip(filled, filled[1:], strict=False))
        if self.width == 1:
            return False
        return row.filled < max(0.5 * self.usual_fill, 1.01) and is_left and not self.is_data(row)

    def violations(self, row: Row) -> tuple[int, int]:
        """Return how many filled cells are of another kind than their column, and how many columns have one."""
        cells = [(row.cells[place], self.kinds[place]) for place in self.typed if place < len(row.cells)]
        kinds = [(kind_of(cell), kind) for cell, kind in cells if cell.strip()]
        return sum(own not in (kind, EMPTY) for own, kind in kinds), len(kinds)

    def is_data(self, row: Row) -> bool:
        """Return True for a record whose cells are of the kinds of their columns, with one that shows it."""
        wrong, known = self.violations(row)
        return self.fits(row) and known > 0 and wrong <= 0.5 * known and known > wrong

    def is_names(self, row: Row) -> bool:
        wrong, known = self.violations(row)
        return known > 0 and wrong > 0.5 * known

    def header_start(self) -> tuple[_Start, list[Question]]:
        before, place = self._leading()
        if self.typed and place is not None:
            return self._typed_start(before, place)
        return self._text_start(before)

    def _leading(self) -> tuple[list[int], int | None]:
        """Return the places of leading rows that are no data, and the place of the first record, if kinds show it."""
        leading: list[int] = []
        for place, row in enumerate(self.rows[:_MOST_BEFORE]):
            if self.typed and not row.is_empty and not self.is_narrow(row) and self.is_data(row):
                below = next((other for other in self.rows[place + 1 :] if not other.is_empty), None)
                # Years may span several columns whose names are below.
                if row.filled >= 0.6 * self.usual_fill or below is None or not self.is_names(below):
                    return leading, place
            leading.append(place)
        return leading, None

    def _typed_start(self, leading: list[int], first: int) -> tuple[_Start, list[Question]]:
        block = self._block_before(first)
        if not block:
            return self._without_names(first)
        header, questions = self._header_of(block)
        return self._start(header, first), questions

    def _block_before(self, first: int) -> list[Row]:
        """Return the rows directly above a place that may be the header, without empty rows between."""
        place = first - 1
        while place >= 0 and self.rows[place].is_empty:
            place -= 1
        block: list[Row] = []
        while place >= 0 and len(block) < _MOST_HEADER_LINES:
            row = self.rows[place]
            if row.is_empty or (self.is_narrow(row) and not (block and self._is_group(row, block[0]))):
                break
            block.insert(0, row)
            place -= 1
        return block

    def _is_group(self, row: Row, below: Row) -> bool:
        """Return True for names that each span several columns below: they have gaps, or stand in later columns."""
        if len(row.cells) != len(below.cells):
            return False
        filled = [place for place, cell in enumerate(row.cells) if cell.strip()]
        has_gap = filled != list(range(len(filled)))
        pairs = [(cell.strip(), low.strip()) for cell, low in zip(row.cells, below.cells, strict=True)]
        complements = any(cell and not low for cell, low in pairs) and all(cell or low for cell, low in pairs)
        return has_gap or (complements and len(filled) > 1)

    def _header_of(self, block: list[Row]) -> tuple[list[Row], list[Question]]:
        """Return those rows of a block of rows without data that are the header."""
        header, questions = [block[-1]], []
        for row in reversed(block[:-1]):
            below = header[0]
            if self._is_group(row, below) or self._are_units(below):
                header.insert(0, row)
            elif row.filled >= 0.8 * self.width and self.fits(row):
                reason = f"{_shown(row)} and {_shown(below)} both may have the names"
                header.insert(0, row)
                questions = [Question("header_lines", (len(header), 1), reason)]
            else:
                break
        return header, questions

    @staticmethod
    def _are_units(row: Row) -> bool:
        cells = [cell.strip() for cell in row.cells if cell.strip()]
        marked = sum(1 for cell in cells if cell[0] in "[(" and cell[-1] in "])")
        short = sum(1 for cell in cells if len(cell) <= 4)
        return bool(cells) and (marked > 0.5 * len(cells) or (len(cells) < len(row.cells) and short == len(cells)))

    def _without_names(self, first: int) -> tuple[_Start, list[Question]]:
        """Return the start of records without a header above; years and the like may be one."""
        row = self.rows[first]
        numbers = [place for place in self.typed if self.kinds[place] == NUMBER and row.cells[place].strip()]
        names = [row.cells[place].strip() for place in numbers]
        if len(numbers) == len(self.typed) and names and all(_YEAR.fullmatch(name) for name in names):
            values = [other for other in self.rows[first + 1 :] if self.fits(other)]
            years = sum(bool(_YEAR.fullmatch(other.cells[place].strip())) for other in values for place in numbers)
            if years <= 0.2 * len(values) * len(numbers):
                texts = [place for place in range(self.width) if place not in numbers]
                questions = [Question("header", (True, False), f"{_shown(row)} may be names or values")]
                is_clear = self._evidence(row, values, texts) >= 2
                return self._start([row], first + 1), [] if is_clear else questions
        return self._start([], first), []

    def _text_start(self, leading: list[int]) -> tuple[_Start, list[Question]]:
        """Return the start of a table without a column of numbers, dates or codes."""
        rows = [(place, row) for place, row in enumerate(self.rows) if not row.is_empty]
        first = next((place for place, row in rows if not self.is_narrow(row)), None)
        if first is None:
            return self._start([], rows[0][0] if rows else 0), []
        row = self.rows[first]
        following = next((place for place, other in rows if place > first), None)
        if following is None:
            return self._start([row], first + 1), []
        block = [row]
        questions: list[Question] = []
        if self._is_group(row, self.rows[following]) and row.filled < self.rows[following].filled:
            block.append(self.rows[following])
            reason = f"the names in {_shown(row)} may span several columns"
            questions.append(Question("header_lines", (2, 1), reason))
            return self._start(block, following + 1), questions
        values = [other for place, other in rows if place > first and self.fits(other)]
        evidence = self._evidence(row, values)
        if evidence <= -2:
            return self._start([], first), []
        if evidence < 2:
            likely = (True, False) if evidence >= 0 else (False, True)
            questions.append(Question("header", likely, f"{_shown(row)} may be names or values"))
        header = block if evidence >= 0 else []
        return self._start(header, first + len(header)), questions

    def _evidence(self, row: Row, values: Sequence[Row], places: Sequence[int] | None = None) -> int:
        """Return how much speaks for names in a row: at least 2 is clear, at most -2 clearly against."""
        evidence = 0
        names = [cell.strip() for cell in row.cells[: self.width]]
        if len(set(names)) < len([name for name in names if name]):
            evidence -= 1
        for place in places if places is not None else range(len(names)):
            name = names[place]
            column = [other.cells[place].strip() for other in values[:300] if place < len(other.cells)]
            column = [value for value in column if value]
            if not name or not column:
                continue
            words = set(re.split(r"[\W_\d]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))
            evidence += 2 * bool(words & _NAMES)
            evidence += _against(name, column) + _difference(name, column)
        return evidence

    def _start(self, header: list[Row], first: int) -> _Start:
        row = header[0] if header else self.rows[first] if first < len(self.rows) else None
        return _Start(row.line - 1 if row is not None else 0, tuple(header), first)


def _count_typed(kinds: Sequence[str]) -> int:
    return sum(kind in TYPED for kind in kinds)


def _against(name: str, column: Sequence[str]) -> int:
    """Return a negative number if a value stands in its own column again."""
    return -2 if name in column else 0


def _difference(name: str, column: Sequence[str]) -> int:
    """Return 1 or 2 if a name has another form than the values below it."""
    lengths = {len(value) for value in column}
    difference = 0
    if len(column) >= 3 and len(lengths) == 1 and len(name) not in lengths:
        difference += 1
    if all(_HAS_DIGIT.search(value) for value in column) and not _HAS_DIGIT.search(name):
        difference += 2
    if len(column) >= 3 and all(value.isupper() for value in column) and not name.isupper():
        difference += 1
    if len(column) >= 5 and len(set(column)) <= max(3, len(column) // 5) and name not in column:
        difference += 1
    return difference


def _shown(row: Row) -> str:
    """Return the first cells of a row for a reason."""
    cells = [cell.strip()[:20] for cell in row.cells if cell.strip()][:3]
    return f"line {row.line} ({', '.join(cells)})"


def _footer_lines(table: _Table, rows: Sequence[Row]) -> tuple[int, list[Question]]:
    """Return the number of lines after the records, without blank lines at the end, and what they leave open."""
    rows = list(rows)
    while rows and not rows[-1].cells:
        rows.pop()
    first, place, is_unsure = len(rows), len(rows), False
    while place > 0 and len(rows) - place < _MOST_AFTER:
        row = rows[place - 1]
        if not row.is_empty:
            is_after, is_asked = _is_after(table, row, rows[place - 2] if place > 1 else None)
            if not is_after:
                break
            first, is_unsure = place - 1, is_unsure or is_asked
        place -= 1
    if first == 0:
        return 0, []
    while first < len(rows) and first > 0 and not rows[first - 1].cells:
        first -= 1
    footer = rows[first:]
    lines = sum(row.lines for row in footer)
    if not lines or not is_unsure:
        return lines, []
    remark = next(row for row in footer if row.cells)
    reason = f"{_shown(remark).partition(' ')[2].partition(' ')[2]} at the end may be a record or a remark"
    return lines, [Question("footer_lines", (lines, 0), reason)]


def _is_after(table: _Table, row: Row, before: Row | None) -> tuple[bool, bool]:
    """Return True for a line after the records, and True if it may be a record."""
    first = next((cell for cell in row.cells if cell.strip()), "")
    is_total = _TOTALS.fullmatch(first.strip()) is not None
    if table.width == 1:
        return (is_total and table.is_names(row)), False
    if not table.fits(row):
        return row.filled < 0.5 * table.usual_fill or is_total, False
    wrong, known = table.violations(row)
    if table.is_narrow(row):
        is_clear = is_total or wrong > 0 or before is None or before.is_empty
        return True, not is_clear
    is_clear = is_total and (row.filled < table.usual_fill or wrong > 0)
    return is_clear or _SUMS.fullmatch(first.strip()) is not None, not is_clear
