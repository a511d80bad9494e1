"""Lines of a table: those before the header, the header's, and those after the records."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from loader.domain.sources.file_detection.cells import NUMBER, is_missing, kind_of
from loader.domain.sources.file_detection.column_names import CLEAR, evidence_of_names, is_usual_name
from loader.domain.sources.file_detection.dialects import Row, width_of
from loader.domain.sources.file_detection.footers import footer_lines, without_footer
from loader.domain.sources.file_detection.model import Question
from loader.domain.sources.file_detection.tables import Table
from loader.domain.sources.headers import is_drawn

_MOST_BEFORE, _MOST_HEADER_LINES = 200, 6
# Part of the values of a record that may be of other kinds than those below them.
_FEW_WRONG = 0.2
# Rows below the first record of which few are of other kinds.
_FOLLOWING = 3
_COMMENTS = ("#", "//", "--", "%", "*", "!")
_YEAR = re.compile(r"(?:19|20|21)\d\d")
# Dates and numbers that are rather no names, other than years and numbers of columns.
_VALUE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ].*)?|\d{2}[./]\d{2}[./]\d{4}(?: .*)?|\d{6,14}")


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


def detect_structure(rows: Sequence[Row], last: Sequence[Row] | None = None, *, has_end: bool = True) -> Structure:
    """Return the structure of a table by its first records, and its ``last`` ones if the first are not all.

    ``has_end``: the end of the table is among them.
    """
    width = width_of(rows)
    if width == 0:
        return Structure(rows=tuple(rows), width=0)
    table = _Beginning(tuple(rows), width)
    start, questions = table.header_start()
    if reason := table.misfit(start):
        start, questions = table.start_of_records(start, reason)
    footer, asked = footer_lines(table, rows[start.first_record :] if last is None else last)
    if not has_end or last is not None and not last:
        footer, asked = 0, [Question("footer_lines", (0,), "the end of the file was not read")]
    return Structure(
        start.skip,
        start.header_lines,
        footer,
        width,
        tuple(row.cells for row in start.header),
        without_footer(rows[start.first_record :], footer if last is None else 0),
        (*questions, *asked),
    )


@dataclass(frozen=True)
class _Start:
    """Beginning of a table: lines before it, its header, and the place of its first record."""

    skip: int
    header: tuple[Row, ...]
    first_record: int

    @property
    def header_lines(self) -> int:
        return len(self.header)


class _Beginning(Table):
    """Table with the rules that find its header and its first record."""

    def header_start(self) -> tuple[_Start, list[Question]]:
        first = self._first_data() if self.typed else None
        if first is None:
            return self._text_start()
        names = next((place for place in reversed(range(first)) if self._has_names(self.rows[place])), None)
        if names is not None and not self._is_earlier_comment(names, first):
            return self._named_start(names, first)
        silent = [place for place in range(first) if self._may_be_record(self.rows[place])]
        if silent:
            return self._silent_start(silent)
        below = [
            place for place in range(first + 1, min(first + 4, len(self.rows))) if self._has_words(self.rows[place])
        ]
        if below and self.violations(self.rows[below[0]])[0] > 1:
            return self._named_start_below(first, below[0])
        return self._without_names(first)

    def _is_earlier_comment(self, place: int, first: int) -> bool:
        """Return True for a comment with others below it: of several comments, only the last one may have the names."""
        return _is_comment(self.rows[place]) and any(map(_is_comment, self.rows[place + 1 : first]))

    def misfit(self, start: _Start) -> str:
        """Return the reason why a header does not fit its records; empty if it does.

        It is a drawn line, or has one field less than records, as R writes it above names of rows.
        """
        if start.header_lines != 1 or start.first_record == len(self.rows):
            return ""
        (header,) = start.header
        if is_drawn(header.cells):
            return f"{_shown(header)} is a drawn line without names"
        records = [row for row in self.rows[start.first_record :] if len(row.cells) == self.width]
        lacks_name = len(header.cells) == header.filled == self.width - 1
        if lacks_name and any(row.cells[-1].strip() for row in records):
            return f"{_shown(header)} has one name less than records have fields"
        return ""

    def start_of_records(self, start: _Start, reason: str) -> tuple[_Start, list[Question]]:
        """Return the start of the records below a header that does not fit them, and the questions about it."""
        below = self._start([], start.first_record)
        questions = [
            Question("header", (False, True), reason),
            Question("skip_lines", (below.skip, start.skip), reason),
        ]
        return below, questions

    def _named_start_below(self, first: int, names: int) -> tuple[_Start, list[Question]]:
        """Return the start of a table with names below lines that look like its records."""
        row = self.rows[names]
        reason = f"{_shown(self.rows[first])} is before {_shown(row)}, which may have the names"
        skips = (row.line - 1, self.rows[first].line - 1)
        questions = [Question("header", (True, False), reason), Question("skip_lines", skips, reason)]
        return self._start([row], names + 1), questions

    def _first_data(self) -> int | None:
        """Return the place of the first row whose cells are of the kinds of their columns; None if there is none."""
        for place, row in enumerate(self.rows[:_MOST_BEFORE]):
            if row.is_empty or self.is_narrow(row) or not self.is_data(row):
                continue
            following = [other for other in self.rows[place + 1 : place + 1 + _FOLLOWING] if not other.is_empty]
            below = next((other for other in self.rows[place + 1 :] if not other.is_empty), None)
            if sum(map(self._has_words, following)) > (self.violations(row)[0] == 0):
                continue  # lines about the columns, like units and sources, some of them numbers
            if self._is_underlined(place):
                continue  # names, some of them years
            # Years may span several columns whose names are below.
            if below is None or not self.is_names(below):
                return place
            if row.filled >= 0.6 * self.usual_fill and not self._is_group(row, below):
                return place
        return None

    def _is_underlined(self, place: int) -> bool:
        """Return True for the first row of names or values if a line is drawn below it, and a record follows."""
        below = self.rows[place + 1 : place + 3]
        if len(below) < 2 or not is_drawn(below[0].cells) or below[1].filled < 0.6 * self.usual_fill:
            return False
        above = self.rows[:place]
        return self.is_data(below[1]) and not any(self.is_data(row) or self._has_words(row) for row in above)

    def _has_names(self, row: Row) -> bool:
        return self.is_names(row) and not self.is_narrow(row)

    def _has_words(self, row: Row) -> bool:
        """Return True for names that are no drawn line."""
        return self._has_names(row) and not is_drawn(row.cells)

    def _may_be_record(self, row: Row) -> bool:
        """Return True for a record as far as the kinds of its cells show: none of them is of another kind."""
        return self.fits(row) and not row.is_empty and not self.violations(row)[0] and self.width > 1

    def _named_start(self, names: int, first: int) -> tuple[_Start, list[Question]]:
        """Return the start of a table with names above its first data; rows between them are records."""
        block = self._block_to(names)
        header, questions = self._header_of(block)
        if lines := self._full_rows_above(names - len(header) + 1):
            skip = header[0].line - 1
            reason = f"{_shown(lines[-1])} is before the header, and may have names or values"
            questions = [*_others(questions, "skip_lines"), Question("skip_lines", (skip, lines[-1].line - 1), reason)]
        between = [row for row in self.rows[names + 1 : first] if not row.is_empty]
        below = between[0] if between else self.rows[first]
        if not questions and len(header) == 1 and self._has_values(header[0]):
            reason = f"{_shown(header[0])} may be names or values"
            skips = (header[0].line - 1, below.line - 1)
            questions = [Question("header", (True, False), reason), Question("skip_lines", skips, reason)]
        elif questions and between and len(header) > 1:
            questions = self._or_without_header(questions, header, first)
        elif not questions and len(header) == 1 and self._fills_gaps(header[0], below):
            reason = f"{_shown(below)} may be a record, or has the names that are missing above"
            header, questions = [header[0], below], [Question("header_lines", (2, 1), reason)]
        if between and not questions and not self._is_plain_record(between[0]):
            counts = (len(header), len(header) + 1)
            reason = f"{_shown(between[0])} may be a record, or a part of the header"
            if is_drawn(between[0].cells):
                header, counts = [*header, between[0]], counts[::-1]
            questions = [Question("header_lines", counts, reason)]
        return self._start(header, self.rows.index(header[-1]) + 1), questions

    def _or_without_header(self, questions: Sequence[Question], header: list[Row], first: int) -> list[Question]:
        """Return the questions about lines above the records, of which none need be the header."""
        reason = questions[0].reason
        asked = [question.candidates for question in questions if question.option == "skip_lines"]
        skips = asked[0] if asked else (header[0].line - 1,)
        skips = tuple(dict.fromkeys((*skips, self.rows[first].line - 1)))
        of_lines = [Question("skip_lines", skips, reason), Question("header", (True, False), reason)]
        return [*_others(questions, "skip_lines"), *of_lines]

    def _has_values(self, header: Row) -> bool:
        """Return True for names of which one is a date or a long number, as in a line about the file."""
        values = [cell.strip() for cell in header.cells if _VALUE.fullmatch(cell.strip())]
        return len(values) == 1 and header.filled > 1 and not self.is_narrow(header)

    def _fills_gaps(self, header: Row, below: Row) -> bool:
        """Return True for a row with texts or years wherever the header has no names, which may be a part of it."""
        cells = [*header.cells, *[""] * self.width][: self.width]
        gaps = [place for place, cell in enumerate(cells) if not cell.strip()]
        if not gaps or not self.fits(below) or self.is_narrow(below):
            return False
        if not all(below.cells[place].strip() for place in gaps):
            return False
        if not self.violations(below)[1]:
            return True
        numbers = [place for place in self.typed if kind_of(below.cells[place]) == NUMBER]
        values = [other for other in self.rows[self.rows.index(below) + 1 :] if self.fits(other)]
        are_years = all(_YEAR.fullmatch(below.cells[place].strip()) for place in numbers)
        # Other numbers that stand below names, too, are rather values.
        are_missing = are_years or not any(cells[place].strip() for place in numbers)
        return are_missing and self._is_series(below, values, numbers)

    def _is_plain_record(self, row: Row) -> bool:
        """Return True for a row that is neither one of units nor one of signs, like a line drawn below the names."""
        has_values = any(sign.isalnum() for cell in row.cells for sign in cell)
        return self.fits(row) and has_values and not self._are_units(row)

    def _full_rows_above(self, place: int) -> list[Row]:
        """Return the rows directly above a place that have values in most columns and are no comments."""
        lines: list[Row] = []
        for row in reversed(self.rows[:place]):
            if self.width == 1 or _is_comment(row) or not self._is_filled(row):
                break
            lines.append(row)
        return lines

    def _is_filled(self, row: Row) -> bool:
        """Return True for a row with values in about as many columns as records have."""
        return self.fits(row) and row.filled >= 0.8 * min(self.width, self.usual_fill)

    def _silent_start(self, silent: list[int]) -> tuple[_Start, list[Question]]:
        """Return the start of a table whose first rows have nothing in the columns that would show a header."""
        place = next((place for place in silent if not self.is_narrow(self.rows[place])), silent[0])
        row = self.rows[place]
        values = [other for other in self.rows[place + 1 :] if self.fits(other)]
        evidence = self._evidence(row, values)
        is_narrow = self.is_narrow(row)
        questions = []
        if evidence < CLEAR or is_narrow or len(silent) > 1:
            likely = (True, False) if evidence >= 0 and not is_narrow else (False, True)
            questions.append(Question("header", likely, f"{_shown(row)} may be names or values"))
        skips = [self.rows[other].line - 1 for other in silent if other < place]
        if is_narrow:  # titles have values on the left only, too
            skips = [other.line - 1 for other in self.rows[place + 1 :] if not other.is_empty][:_MOST_HEADER_LINES]
        if skips:
            reason = f"{_shown(self.rows[silent[0]])} may be a record or a title"
            questions.append(Question("skip_lines", (row.line - 1, *skips), reason))
        header = [] if questions and questions[0].candidates[0] is False else [row]
        return self._start(header, place + len(header)), questions

    def _block_to(self, last: int) -> list[Row]:
        """Return the rows that end at a place and may be the header together, without empty rows between."""
        block: list[Row] = []
        for row in reversed(self.rows[: last + 1]):
            is_spanning = block and self._is_group(row, block[0])
            is_remark = block and _is_comment(row) and not _is_comment(block[-1])
            is_beside = is_remark or (self.is_narrow(row) and not is_spanning)
            if row.is_empty or len(block) == _MOST_HEADER_LINES or is_beside:
                break
            block.insert(0, row)
        return block

    def _is_group(self, row: Row, below: Row) -> bool:
        """Return True for names that each span several columns below: they have gaps, or stand in later columns."""
        if len(row.cells) != len(below.cells) or row.filled == len(row.cells):
            return False
        filled = [place for place, cell in enumerate(row.cells) if cell.strip()]
        has_gap = filled != list(range(len(filled)))
        pairs = [(cell.strip(), low.strip()) for cell, low in zip(row.cells, below.cells, strict=True)]
        complements = any(cell and not low for cell, low in pairs) and all(cell or low for cell, low in pairs)
        return has_gap or (complements and len(filled) > 1)

    def _header_of(self, block: list[Row]) -> tuple[list[Row], list[Question]]:
        """Return those rows of a block of rows without data that are the header."""
        header, reason = [block[-1]], ""
        for row in reversed(block[:-1]):
            below = header[0]
            wrong, known = self.violations(below)
            if self._are_units(below) or is_drawn(below.cells) or (self._is_group(row, below) and known == wrong > 1):
                header.insert(0, row)
            elif self._is_group(row, below) or self._is_filled(row):
                reason = reason or f"{_shown(row)} and {_shown(below)} both may have the names"
                header.insert(0, row)
            else:
                break
        if not reason and is_drawn(block[-1].cells) and len(header) > 1:
            reason = f"{_shown(block[-1])} may be a record, or a part of the header"
            return header, [Question("header_lines", (len(header), len(header) - 1), reason)]
        if not reason:
            return header, []
        counts = tuple(range(len(header), 0, -1))
        starts = tuple(dict.fromkeys(row.line - 1 for row in header))
        return header, [Question("header_lines", counts, reason), Question("skip_lines", starts, reason)]

    @staticmethod
    def _are_units(row: Row) -> bool:
        cells = [cell.strip() for cell in row.cells if cell.strip()]
        marked = sum(1 for cell in cells if cell[0] in "[(" and cell[-1] in "])")
        short = sum(1 for cell in cells if len(cell) <= 4)
        return bool(cells) and (marked > 0.5 * len(cells) or (len(cells) < len(row.cells) and short == len(cells)))

    def _without_names(self, first: int) -> tuple[_Start, list[Question]]:
        """Return the start of records without names of texts above; years and the like may be names."""
        row = self.rows[first]
        wrong, known = self.violations(row)
        texts = [place for place in range(self.width) if place not in self.typed or self.is_wrong(row, place)]
        values = [other for other in self.rows[first + 1 :] if self.fits(other)]
        evidence = self._evidence(row, values, texts) + 2 * wrong
        numbers = [place for place in self.typed if kind_of(row.cells[place]) == self.kinds[place] == NUMBER]
        is_series = len(numbers) == known - wrong and self._is_series(row, values, numbers)
        # Years that follow each other above other numbers are names, if the texts beside them may be names as well.
        is_clear_series = is_series and bool(texts) and evidence >= 0 and self._are_following_years(row, numbers)
        # Few values of other kinds, among others that are like those below them, are those of a record.
        is_record = not wrong and evidence < CLEAR or wrong <= _FEW_WRONG * known and evidence < 0
        if is_record and not is_series:
            return self._start([], first), self._short_records(first)
        if is_series and (is_clear_series or evidence >= CLEAR):
            return self._start([row], first + 1), []
        likely = (True, False) if is_series else (False, True)
        questions = [Question("header", likely, f"{_shown(row)} may be names or values")]
        header = [row] if is_series else []
        return self._start(header, first + len(header)), questions

    def _short_records(self, first: int) -> list[Question]:
        """Return the question about a row above the first record that may be one with fields too few or too many."""
        for other in self.rows[:first]:
            wrong, known = self.violations(other)
            if known and not wrong and other.filled > 1:
                reason = f"{_shown(other)} may be a record or a title"
                return [Question("skip_lines", (self.rows[first].line - 1, other.line - 1), reason)]
        return []

    @staticmethod
    def _are_following_years(row: Row, numbers: Sequence[int]) -> bool:
        """Return True for two years or more, each one after or before the last one."""
        names = [row.cells[place].strip() for place in numbers]
        steps = {int(after) - int(before) for before, after in zip(names, names[1:], strict=False)}
        return all(_YEAR.fullmatch(name) for name in names) and steps in ({1}, {-1})

    @staticmethod
    def _is_series(row: Row, values: Sequence[Row], numbers: Sequence[int]) -> bool:
        """Return True for years or numbers in steps that the values below them are not."""
        names = [row.cells[place].strip() for place in numbers]
        if not names or not all(name.isascii() and name.isdigit() for name in names):
            return False
        steps = {int(after) - int(before) for before, after in zip(names, names[1:], strict=False)}
        are_years = all(_YEAR.fullmatch(name) for name in names)
        if not are_years and (len(names) < 3 or len(steps) != 1 or steps == {0}):
            return False
        below = [
            (name, other.cells[place].strip()) for other in values for name, place in zip(names, numbers, strict=True)
        ]
        same = sum(bool(_YEAR.fullmatch(cell)) if are_years else cell == name for name, cell in below)
        return same <= 0.2 * len(below)

    def _text_start(self) -> tuple[_Start, list[Question]]:
        """Return the start of a table without a column of numbers, dates or codes."""
        rows = [(place, row) for place, row in enumerate(self.rows) if not row.is_empty]
        fitting = [place for place, row in rows if self.fits(row)] or [place for place, _ in rows]
        first = next((place for place, row in rows if not self.is_narrow(row)), None)
        if first is None:
            return self._narrow_start(fitting)
        row = self.rows[first]
        following = next((place for place, other in rows if place > first), None)
        if following is None:
            return self._last_start(row, first, fitting)
        if self._is_group(row, self.rows[following]) and row.filled < self.rows[following].filled:
            reason = f"the names in {_shown(row)} may span several columns"
            questions = [Question("header_lines", (2, 1), reason), Question("header", (True, False), reason)]
            return self._start([row, self.rows[following]], following + 1), questions
        values = [other for place, other in rows if place > first and self.fits(other)]
        evidence, questions = self._evidence(row, values), []
        # A header may be repeated where files were joined.
        if evidence < CLEAR and (evidence > -4 or any(other.cells == row.cells for other in values)):
            likely = (True, False) if evidence >= 0 else (False, True)
            questions.append(Question("header", likely, f"{_shown(row)} may be names or values"))
        before = [other for place, other in rows if place < first and self.fits(other) and self.width > 1]
        if before:
            reason = f"{_shown(before[0])} may be a record or a title"
            questions.append(Question("skip_lines", (row.line - 1, before[0].line - 1), reason))
        header = [row] if evidence >= 0 else []
        return self._start(header, first + len(header)), questions

    def _narrow_start(self, fitting: list[int]) -> tuple[_Start, list[Question]]:
        """Return the start of a table whose rows all have values on the left only."""
        if not fitting:
            return self._start([], 0), []
        row = self.rows[fitting[0]]
        reason = f"{_shown(row)} may be names, values or a title"
        questions = [Question("header", (False, True), reason)]
        if skips := tuple(self.rows[place].line - 1 for place in fitting[:_MOST_HEADER_LINES]):
            questions += [Question("skip_lines", skips, reason)] if len(skips) > 1 else []
        return self._start([], fitting[0]), questions

    def _last_start(self, row: Row, place: int, fitting: list[int]) -> tuple[_Start, list[Question]]:
        """Return the start of a table whose only row with values in most columns is its last one."""
        names = [cell for cell in row.cells if cell.strip()]
        questions = []
        known = sum(map(is_usual_name, names))
        if known < 0.5 * len(names) or place > fitting[0]:
            reason = f"{_shown(row)} may be names or values"
            questions.append(Question("header", (True, False), reason))
        if place > fitting[0]:
            skips = (row.line - 1, self.rows[fitting[0]].line - 1)
            questions.append(
                Question("skip_lines", skips, f"{_shown(self.rows[fitting[0]])} may be a record or a title")
            )
        return self._start([row], place + 1), questions

    def _evidence(self, row: Row, values: Sequence[Row], places: Sequence[int] | None = None) -> int:
        return evidence_of_names([cell.strip() for cell in row.cells[: self.width]], values, places)

    def _start(self, header: list[Row], first: int) -> _Start:
        row = header[0] if header else self.rows[first] if first < len(self.rows) else None
        return _Start(row.line - 1 if row is not None else 0, tuple(header), first)


def _shown(row: Row) -> str:
    """Return the first cells of a row for a reason."""
    cells = [cell.strip()[:20] for cell in row.cells if cell.strip()][:3]
    return f"line {row.line} ({', '.join(cells)})"


def _is_comment(row: Row) -> bool:
    """Return True for a row that begins with the sign of a comment, other than a sign that stands for no value."""
    is_marked = bool(row.cells) and row.cells[0].startswith(_COMMENTS) and not is_missing(row.cells[0])
    return is_marked and not is_drawn(row.cells)


def _others(questions: Sequence[Question], option: str) -> list[Question]:
    return [question for question in questions if question.option != option]
