"""Lines after the records of a table: totals, remarks and blank lines."""

import re
from collections.abc import Sequence

from loader.domain.sources.file_detection.dialects import Row
from loader.domain.sources.file_detection.model import Question
from loader.domain.sources.file_detection.tables import Table

_MOST_AFTER = 300
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
    for place in range(len(rows) - 1, max(len(rows) - 1 - _MOST_AFTER, -1), -1):
        row = rows[place]
        if row.is_empty:
            continue
        if place == 0 and table.fits(row):
            break
        is_after, is_clear = _is_after(table, row)
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
