"""Delimiter and quotes of CSV: those by which most lines are records of one width, with cells that make sense."""

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt

from loader.domain.sources.csv_lines import is_blank, reader_arguments
from loader.domain.sources.csv_quotes import QuoteScanner
from loader.domain.sources.file_detection.cells import EMPTY, TEXT, TYPED, kind_of
from loader.domain.sources.file_detection.model import Question

DELIMITERS = (",", ";", "\t", "|", "^", "~", "\x01", "\x1f", "¦", "§")
_RARE_DELIMITERS = (":", " ")
_USUAL = ",;\t|"
_ROWS = 1_500
_CLOSE, _SIMILAR = 0.95, 0.85
# Fields of lines above a table, and the number of these lines.
_NARROW, _FEW_LINES = 3, 30
# Delimiters of several characters, as in files of MovieLens.
_LONG_DELIMITERS = ("::", "~|~", "|~|", "^|^", "|^|", "#|#", "@@")
_COMMENT = "#"
# Blanks between values that are aligned below each other.
_ALIGNED = re.compile(r"(?<=\S) {2,}(?=\S)")
_QUOTED = r"(?:^|[{0}])'[^'\n]*[^'\n]'(?=[{0}\r\n]|$)"


@dataclass(frozen=True)
class Row:
    """Record of a text: its first physical line, from 1, the number of its lines, and its fields."""

    line: int
    lines: int
    cells: tuple[str, ...]
    is_blank: bool = False

    @property
    def filled(self) -> int:
        return sum(1 for cell in self.cells if cell.strip())

    @property
    def is_empty(self) -> bool:
        return not any(cell.strip() for cell in self.cells)


@dataclass(frozen=True)
class Dialect:
    """Delimiter, quote and escape; ``keeps_quotes``: quotes stand inside of fields that do not begin with one."""

    delimiter: str = ","
    quote: str = '"'
    escape: str = '"'
    keeps_quotes: bool = False

    def rows(self, lines: Sequence[str]) -> list[Row]:
        """Return the records of lines, blank lines as records without fields. Raise csv.Error."""
        reader = csv.reader(lines, **reader_arguments(self.delimiter, self.quote, self.escape))
        rows, before = [], 0
        for fields in reader:
            rows.append(Row(before + 1, reader.line_num - before, tuple(fields), is_blank(lines[before])))
            before = reader.line_num
        return rows


def width_of(rows: Sequence[Row]) -> int:
    """Return the number of fields of most records, those of several fields first."""
    counts = Counter(len(row.cells) for row in rows if not row.is_empty)
    if not counts:
        return 0
    several = {width: count for width, count in counts.items() if width > 1}
    if not several:
        return 1
    width = max(several, key=lambda width: (several[width] * (1 - 1 / (width + 1)), width))
    width = _width_at_end(rows) or _width_of_block(rows, several, width)
    records = [row for row in rows if len(row.cells) == width and not row.is_empty]
    is_ended = all(not row.cells[-1].strip() for row in records)
    # Records that end with a delimiter, under a header that does not.
    first = next((place for place, row in enumerate(rows) if len(row.cells) == width), 0)
    has_header = any(len(row.cells) == width - 1 and row.filled == width - 1 for row in rows[:first])
    return width - 1 if is_ended and has_header and width > 2 else width


def _width_of_block(rows: Sequence[Row], counts: Mapping[int, int], usual: int) -> int:
    """Return the width of wider rows that have none of the usual width between them: those are lines around a table."""
    for width in sorted(counts, reverse=True):
        if width <= usual or counts[width] < max(2, 0.5 * counts[usual]):
            continue
        places = [place for place, row in enumerate(rows) if len(row.cells) == width]
        if not any(len(row.cells) == usual and row.filled for row in rows[places[0] : places[-1]]):
            return width
    return usual


def _width_at_end(rows: Sequence[Row]) -> int:
    """Return the width of a table below a few lines of names and values; 0 for other rows.

    The rows above have ``_NARROW`` fields at most, all those from the first wider one on have the same number, at least
    two more. The first of these has names and the next one other values: rows without them are rather records with
    delimiters too many.
    """
    filled = [row for row in rows if not row.is_empty]
    start = next((place for place, row in enumerate(filled) if len(row.cells) > _NARROW), 0)
    widths = {len(row.cells) for row in filled[start:]}
    if not 0 < start <= min(_FEW_LINES, len(filled) - 2) or len(widths) > 1 or min(widths) <= _NARROW + 1:
        return 0
    names, values = (map(kind_of, row.cells) for row in filled[start : start + 2])
    return widths.pop() if TYPED.isdisjoint(names) and not TYPED.isdisjoint(values) else 0


def detect_dialect(lines: Sequence[str]) -> tuple[Dialect, list[Question]]:
    """Return the dialect of a text, given by its lines, and the questions that it leaves open."""
    lines = lines[:_ROWS]
    best, questions = _likeliest(lines)
    if not any(question.option == "delimiter" for question in questions) and _are_aligned(best, lines):
        reason = "values are aligned by blanks, as in a file of format fixed, which has no delimiter"
        other = " " if best.delimiter != " " else ","
        questions = [Question("delimiter", (best.delimiter, other), reason), *questions]
    return best, questions


def _likeliest(lines: Sequence[str]) -> tuple[Dialect, list[Question]]:
    """Return the likeliest dialect of lines, and what delimiter and quotes leave open."""
    text = "".join(lines)
    scores = [(score, dialect) for dialect in _candidates(text, lines) if (score := _score(dialect, lines)) > 0]
    long = next((long for long in _LONG_DELIMITERS if _separates(long, lines)), "")
    if long and not any(dialect.delimiter not in long and _has_one_width(dialect, lines) for _, dialect in scores):
        sign = long[1] if len(long) > 2 else long[0]
        others = [other for other in _USUAL if other in text and other != sign] or [","]
        reason = f"{long} may separate the fields, but a delimiter is one character"
        return Dialect(sign), [Question("delimiter", (sign, *others), reason)]
    if not scores:
        rare = [Dialect(delimiter) for delimiter in _RARE_DELIMITERS if text.count(delimiter) >= len(lines)]
        scores = [(score, dialect) for dialect in rare if (score := _score(dialect, lines)) > 0.4]
    if not scores:
        return _of_few_lines(lines)
    best_score, best = max(scores, key=lambda entry: (entry[0], -_order(entry[1])))
    close = {
        dialect.delimiter: score
        for score, dialect in scores
        if score >= _CLOSE * best_score and dialect.delimiter != best.delimiter
    }
    if not _has_one_width(best, lines):
        close |= {other.delimiter: score for score, other in scores if _has_one_width(other, lines)}
    if best.quote and not best.keeps_quotes and has_stray_quote(best, lines):
        best = replace(best, keeps_quotes=True)
    questions = []
    goes_on = _has_text_after_quotes(best, text)
    plain = replace(best, quote="", escape="", keeps_quotes=False)
    if goes_on and _has_one_width(plain, lines):
        best = plain
    if best.delimiter in _RARE_DELIMITERS:
        close |= {sign: 0.0 for sign in _USUAL if (sign in text or sign == ",") and sign not in close}
    if close:
        others = sorted(close, key=lambda delimiter: -close[delimiter])
        reason = "each of them gives records of one width, or the text has one column"
        questions.append(Question("delimiter", (best.delimiter, *others), reason))
    similar = [dialect for score, dialect in scores if score >= _SIMILAR * best_score]
    questions += _open_quotes(best, similar, lines, goes_on=goes_on)
    if best.keeps_quotes:
        reason = "quotes stand inside of fields that do not begin with one; a delimiter before them may be missing"
        questions.append(Question("quotes_inside", ("keep", "refuse"), reason))
    if not best.quote:
        reason = "a quote that begins a field is not closed, or is part of the value"
        questions.append(Question("quote", ("", '"'), reason))
    return best, questions


def _separates(delimiter: str, lines: Sequence[str]) -> bool:
    """Return True if all lines have a delimiter of several characters, each the same number of times."""
    counts = {line.count(delimiter) for line in lines if line.strip()}
    return len(counts) == 1 and 0 not in counts and len(lines) > 1


def _are_aligned(dialect: Dialect, lines: Sequence[str]) -> bool:
    """Return True for values that are aligned by blanks: in most lines of one column, or in all fields of one of many.

    Several blanks within a line of text are an accident, the same number of gaps in each field is none.
    """
    rows = [row for row in dialect.rows(lines) if not row.is_empty]
    width = width_of(rows)
    if len(rows) < 2 or width < 1:
        return False
    if width == 1:
        return sum(bool(_ALIGNED.search(row.cells[0].strip())) for row in rows) >= 0.6 * len(rows)
    body = [row for row in rows if len(row.cells) == width][1:]
    gaps = [{len(_ALIGNED.findall(row.cells[place].strip())) for row in body} for place in range(width)]
    return len(body) > 1 and any(len(counts) == 1 and max(counts) > 1 for counts in gaps)


def _has_text_after_quotes(dialect: Dialect, text: str) -> bool:
    """Return True if a quoted field goes on after its closing quote, like ``"Bar" none``."""
    if not dialect.quote or dialect.escape != dialect.quote:
        return False
    sign, quote = re.escape(dialect.delimiter), re.escape(dialect.quote)
    gap = " *" if dialect.delimiter != " " else ""
    pattern = f"(?:^|{sign}){quote}[^{quote}\n]+{quote}{gap}[^\\s{quote}{sign}]"
    return re.search(pattern, text, re.MULTILINE) is not None


def _has_one_width(dialect: Dialect, lines: Sequence[str]) -> bool:
    """Return True if all lines are records of one width."""
    rows = [row for row in dialect.rows(lines) if not row.is_empty]
    width = width_of(rows)
    return all(_fits(row, width) for row in rows)


def _open_quotes(best: Dialect, others: Sequence[Dialect], lines: Sequence[str], *, goes_on: bool) -> list[Question]:
    """Return the questions for quote and escape if others make sense, and give other records.

    If a quoted field goes on after its closing quote (``goes_on``), the quote may be part of the value.
    """
    if not best.quote:
        return []
    rows = best.rows(lines)
    differing = [
        other for other in others if other.delimiter == best.delimiter and other.quote and other.rows(lines) != rows
    ]
    questions = []
    for option in ("quote", "escape"):
        values = tuple(dict.fromkeys(getattr(dialect, option) for dialect in (best, *differing)))
        reason = "each of them gives records of one width"
        if goes_on and option == "quote":
            values, reason = (*values, ""), "quoted fields go on after their closing quote"
        is_other_quote = option == "escape" and len({dialect.quote for dialect in (best, *differing)}) > 1
        if len(values) > 1 and not is_other_quote:
            questions.append(Question(option, values, reason))
    return questions


def has_stray_quote(dialect: Dialect, lines: Sequence[str]) -> bool:
    """Return True if a quote stands inside of a field that does not begin with one."""
    scanner = QuoteScanner(delimiter=dialect.delimiter, quote=dialect.quote, escape=dialect.escape)
    return any(scanner.feed(line) is not None for line in lines)


def _of_few_lines(lines: Sequence[str]) -> tuple[Dialect, list[Question]]:
    """Return the dialect of a text that has one column, or one line of several ones, and what it leaves open."""
    filled = [line for line in lines if line.strip()]
    sign = max(_USUAL, key=lambda sign: max((line.count(sign) for line in filled), default=0))
    count = sum(sign in line for line in filled)
    reason = "only one line has it, or the text has one column"
    if sign == "," and 0 < count < 0.5 * len(filled):
        other = next((other for other in _USUAL if not any(other in line for line in filled)), sign)
        return Dialect(other), [Question("delimiter", (other, sign), reason)] if other != sign else []
    if len(filled) <= 1 or sign == "," or not count:
        return Dialect(sign if count else ","), []
    return Dialect(sign), [Question("delimiter", (sign, ","), reason)]


def _order(dialect: Dialect) -> int:
    return DELIMITERS.index(dialect.delimiter) if dialect.delimiter in DELIMITERS else len(DELIMITERS)


def _candidates(text: str, lines: Sequence[str]) -> list[Dialect]:
    blanks = {line.strip().count(" ") for line in lines if line.strip() and not line.startswith(_COMMENT)}
    # Numbers with a comma before the decimals may have blanks between them.
    dialects = [Dialect(" ")] if len(blanks) == 1 and 0 not in blanks and '"' not in text else []
    for delimiter in DELIMITERS:
        if delimiter not in text:
            continue
        if '"' in text:
            dialects += _with_double_quotes(delimiter, text)
        else:
            dialects.append(Dialect(delimiter))
        pattern = _QUOTED.format(re.escape(delimiter))
        if len(re.findall(pattern, text, re.MULTILINE)) >= 2:
            dialects.append(Dialect(delimiter, "'", "'"))
    return dialects


def _with_double_quotes(delimiter: str, text: str) -> list[Dialect]:
    near = rf'(?:^|[{re.escape(delimiter)}])"'
    if not re.search(near, text, re.MULTILINE):
        return [Dialect(delimiter, keeps_quotes=True)]
    dialects = [Dialect(delimiter)]
    if '\\"' in text:
        dialects.insert(0, Dialect(delimiter, escape="\\"))
    return [*dialects, Dialect(delimiter, "", "")]


def _score(dialect: Dialect, lines: Sequence[str]) -> float:
    """Return how well the lines are records in a dialect, from 0 to 1."""
    try:
        rows = [row for row in dialect.rows(lines) if not row.is_empty]
    except csv.Error:
        return 0.0
    width = width_of(rows)
    if width < 2:
        return 0.0
    fitting = [place for place, row in enumerate(rows) if _fits(row, width)]
    if not fitting or len(fitting) < 2 <= len(rows):
        return 0.0
    body = rows[fitting[0] : fitting[-1] + 1]
    consistency = len(fitting) / len(body)
    # Lines of account data above a table are as regular as its records.
    covered = rows if _width_at_end(rows) else body
    coverage = sum(row.lines for row in covered) / max(sum(row.lines for row in rows), 1)
    cells = [cell for place in fitting[:400] for cell in rows[place].cells]
    counts = Counter(cells)
    sense = sum(_sense(cell, dialect.delimiter, dialect.quote) * count for cell, count in counts.items()) / len(cells)
    later = [cell for place in fitting[:400] for cell in rows[place].cells[1:]]
    is_spaced = sum(cell.startswith(" ") for cell in later) > 0.8 * len(later)
    score = consistency**2 * sqrt(coverage) * sense**3 * sqrt(1 - 1 / width)
    score *= 0.8 if is_spaced else 1
    return score * (0.9 if dialect.quote == "'" else 1) * (0.97 if dialect.escape == "\\" else 1)


def _fits(row: Row, width: int) -> bool:
    return len(row.cells) == width or (len(row.cells) == width + 1 and not row.cells[-1])


def _sense(cell: str, delimiter: str, quote: str) -> float:
    kind = kind_of(cell)
    if kind == EMPTY:
        return 0.85
    if kind != TEXT:
        return 1.0
    bare = cell.replace("; ", "")  # as between words
    if any(sign in bare for sign in _USUAL if sign not in (",", delimiter)):
        return 0.2
    if '"' in cell:
        return 0.2 if cell.startswith('"') or cell.endswith('"') else 0.7
    if "\n" in cell and len(cell) > 2_000:
        return 0.1
    if len(cell) > 1 and cell[0] == cell[-1] == "'" and quote != "'":
        return 0.5
    if quote != "'" and cell.strip()[:1] == "'" != cell.strip()[-1:]:
        return 0.5  # the first part of a value in apostrophes
    # Only quotes permit a delimiter in a field.
    return 0.7 if any(sign in cell for sign in ",;" if sign != delimiter or "\n" in cell) else 0.95
