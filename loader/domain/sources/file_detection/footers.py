"""Lines after the records of a table: totals, remarks and blank lines."""

import re
from collections.abc import Sequence

from loader.domain.sources.file_detection.cells import EMPTY, NUMBER, TIME, kind_of
from loader.domain.sources.file_detection.dialects import Row
from loader.domain.sources.file_detection.model import Question
from loader.domain.sources.file_detection.tables import Table
from loader.domain.sources.headers import is_drawn

_MOST_AFTER = 300
# Rows below a line that is drawn under the records, and rows above it, of which none is a drawn one.
_MOST_TOTALS = 6
# Characters of a line that are compared with the words of remarks.
_LONGEST = 200
_TOTALS = re.compile(
    r"\W{0,10}(?:(?:grand |sub)?totals?|sum|summe|gesamt\w{0,30}|zwischensumme|insgesamt|somme|totaal|suma|"
    r"totale|records?|rows?|row count|count|page \d{1,9}|seite \d{1,9}|anzahl|ende|end of \w|eof|"
    r"source|quelle|fonte|note|notes|hinweis\w{0,30}|"
    r"stand|erstellt\w{0,30}|generated|created|printed|\(?\d{1,12} (?:rows?|records?|zeilen|sätze|datensätze))\b",
    re.IGNORECASE,
)


def footer_lines(table: Table, rows: Sequence[Row]) -> tuple[int, list[Question]]:
    """Return the number of lines after the records, without blank lines at the end, and what they leave open.

    Lines that may be records are among the candidates only: a record that is left out would be lost without notice.
    """
    rows = list(rows)
    while rows and rows[-1].is_blank:
        rows.pop()
    starts, clear = [len(rows)], len(rows)
    drawn, block = _drawn_line(rows), _block_of_other_width(table, rows)
    for place in range(len(rows) - 1, max(len(rows) - 1 - _MOST_AFTER, -1), -1):
        row = rows[place]
        if row.is_empty:
            continue
        if place == 0 and table.fits(row):
            break
        is_after, is_clear = _is_after(table, row)
        if place >= drawn:
            is_total = is_after or is_drawn(row.cells) or row.filled < table.usual_fill
            is_after, is_clear = True, is_total and clear == starts[-1]
        is_after = is_after or place >= block or _is_total_without_key(table, rows, place)
        if not is_after:
            break
        starts.append(place)
        clear = place if is_clear else clear
    counts = {start: _count_lines(rows, start) for start in starts if start <= clear}
    if len(counts) == 1:
        return counts[clear], []
    remark = rows[next(start for start in starts if start < clear)]
    shown = ", ".join(cell.strip()[:20] for cell in remark.cells if cell.strip())[:60]
    reason = f"({shown}) at the end may be a record or a remark"
    return counts[clear], [Question("footer_lines", tuple(sorted(counts.values())), reason)]


def _drawn_line(rows: Sequence[Row]) -> int:
    """Return the place of a line that is drawn below the records, with totals after it; the number of rows without one.

    Lines that are drawn between many records separate them.
    """
    first, below, totals = len(rows), 0, 0
    for place in range(len(rows) - 1, 0, -1):
        if rows[place].is_empty:
            continue
        if is_drawn(rows[place].cells):
            first, totals = place, below
        elif (below := below + 1) > _MOST_TOTALS:
            break
    if first == len(rows) or any(is_drawn(row.cells) for row in rows[1:first]):
        return len(rows)
    return first if totals <= sum(1 for row in rows[:first] if not row.is_empty) else len(rows)


def _block_of_other_width(table: Table, rows: Sequence[Row]) -> int:
    """Return the place below a blank line from which on no row is a record; the number of rows without one."""
    start = len(rows)
    for place in reversed(range(len(rows))):
        if not rows[place].is_empty and table.fits(rows[place]):
            break
        start = place + 1 if rows[place].is_empty else start
    return start


def _is_total_without_key(table: Table, rows: Sequence[Row], place: int) -> bool:
    """Return True for a row with numbers, and nothing in the first column, where every record above has a value.

    Its other values, like a currency, are those of all records.
    """
    row, above = rows[place], [other for other in rows[:place] if table.fits(other) and not other.is_empty]
    if not table.fits(row) or kind_of(row.cells[0]) != EMPTY or row.filled >= table.usual_fill or len(above) < 2:
        return False
    kinds = [kind_of(cell) for cell in row.cells[: table.width]]
    if NUMBER not in kinds or not all(kind_of(other.cells[0]) != EMPTY for other in above):
        return False
    others = [column for column, kind in enumerate(kinds) if kind not in (EMPTY, NUMBER, TIME)]
    return all(other.cells[column] == row.cells[column] for column in others for other in above)


def _count_lines(rows: Sequence[Row], start: int) -> int:
    """Return the number of lines from a place on, with the blank ones before it."""
    if start == len(rows):
        return 0
    while start > 0 and rows[start - 1].is_blank:
        start -= 1
    return sum(row.lines for row in rows[start:])


def _is_after(table: Table, row: Row) -> tuple[bool, bool]:
    """Return True for a line that may be after the records, and True if it is certainly no record."""
    first = next((cell for cell in row.cells if cell.strip()), "").strip()
    is_total = _TOTALS.match(first[:_LONGEST]) is not None
    wrong, known = table.violations(row)
    if table.width == 1:
        return is_total, is_total and wrong > 0
    if not table.fits(row):
        # A record that is cut, or has a delimiter too much, is refused by a load.
        is_remark = row.filled <= max(0.5 * table.usual_fill, 1) and (wrong > 0 or not known)
        is_short = row.filled < 0.5 * table.usual_fill
        is_other = wrong > 0 and (is_total or row.filled == 1)
        return is_remark or is_total, (is_remark and (is_short or is_total)) or is_other
    is_wrong = wrong > 0 and (wrong > 0.5 * known or row.filled < table.usual_fill)
    if table.is_narrow(row):
        return True, is_wrong
    return is_total, is_total and (is_wrong or table.is_wrong(row, row.cells.index(next(filter(str.strip, row.cells)))))


def without_footer(rows: Sequence[Row], footer: int) -> tuple[Row, ...]:
    """Return the rows without those of the last ``footer`` lines, and without blank lines at the end."""
    kept = list(rows)
    while kept and kept[-1].is_blank:
        kept.pop()
    while kept and footer > 0:
        footer -= kept.pop().lines
    return tuple(kept)
