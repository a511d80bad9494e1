"""Marks: the highest watermark values that the readers of a raw table have, and the rows that the next run reads.

A raw table with a watermark (``metadata.domain.sources.intake``) has the rows of its latest delivery only. Its commit
notes their *window*: the values from which, and up to which, the source was read. Each reader's *mark* is in the commit
of its leading table that has the rows, so it is never ahead of them or behind. A run reads from the lowest mark of its
readers, and everything if one has none: a reader that is new, or whose mark is of another source.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from loader.contract.manifest.sources import SourceSpec
from loader.contract.refusals import Refusal
from loader.domain.sources.mark_limits import (
    DAY,
    INSTANT,
    LOCAL,
    NUMBER,
    MarkLimits,
    Measure,
    Value,
    time_limit,
    zone_of,
)
from metadata.domain.sources.intake import Intake
from metadata.domain.types import DATE, TIMESTAMP, parse

__all__ = ["DAY", "INSTANT", "LOCAL", "NUMBER", "Mark", "Reading", "Value", "Values", "Window", "value_of"]

NOTE = "marks"
# Part of a run's window with the numbers of rows ahead, by column.
AHEAD = "ahead"
MAX_SINCE = 100
BACKWARDS, NULL_WATERMARK = "WATERMARK_BACKWARDS", "NULL_WATERMARK"
# Values by column, as texts that ``value_of`` reads.
Values = Mapping[str, str]


def value_of(text: str, kind: str, zone: str = "UTC") -> Value:
    """Return the value of a column of this kind. Raise ValueError.

    ``zone`` is that of local timestamps, for a text with a zone.
    """
    if kind == NUMBER:
        try:
            number = Decimal(text)
        except InvalidOperation:
            raise ValueError(text) from None
        if not number.is_finite():
            raise ValueError(text)
        return number
    moment = datetime.fromisoformat(text.strip())
    if kind == INSTANT:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    if moment.tzinfo:
        moment = moment.astimezone(zone_of(zone)).replace(tzinfo=None)
    return moment.date() if kind == DAY else moment


def kind_of(type_text: str) -> str:
    """Return the kind of a watermark column of this type whose values are read in the contract's types."""
    return {DATE: DAY, TIMESTAMP: INSTANT}.get(parse(type_text).name, NUMBER)


def text_of(value: Value) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()


def _parsed(text: str) -> Any:
    """Return the ``Value`` of a text that ``text_of`` made. Any: the values of one column can be compared."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return datetime.fromisoformat(text) if " " in text else date.fromisoformat(text)


@dataclass(frozen=True)
class Mark:
    """Highest watermark values of a reader, without columns that had none. ``source`` is the source's digest.

    ``lows`` are the lowest known numbers. ``is_repeated``: the endpoint delivered rows with the value of the mark
    again, as one does whose parameter includes them.
    """

    source: str
    values: Values
    lows: Values | None = None
    is_repeated: bool = False


@dataclass(frozen=True)
class Window:
    """Part of a source that a run read: from ``start`` (None: everything) up to its highest values ``end``.

    ``by_hand``: a user gave the start, so the marks of the run's readers become ``end`` even if they were higher.
    ``bounds`` are the values from which rows were read, which a look-back puts before the start. ``is_open``: rows that
    have the value of a bound may be missing, because an endpoint decides if its parameter includes them.

    ``times`` are the latest marks of dates and times. ``limits`` are the values that the rows counted in ``ahead``
    exceed, which ``end`` leaves out. ``passed`` are marks of an earlier load that exceed ``times``: the source was read
    whole. ``lows`` and ``is_repeated`` are those of the marks.
    """

    source: str
    start: Values | None
    end: Values
    by_hand: bool = False
    bounds: Values | None = None
    is_open: bool = False
    times: Values | None = None
    limits: Values | None = None
    ahead: Mapping[str, int] | None = None
    passed: Values | None = None
    lows: Values | None = None
    is_repeated: bool = False

    def as_note(self) -> dict[str, str]:
        return {NOTE: json.dumps(asdict(self), sort_keys=True)}

    @classmethod
    def of_note(cls, notes: Mapping[str, str]) -> "Window | None":
        return cls(**json.loads(notes[NOTE])) if NOTE in notes else None


def marks_in(notes: Mapping[str, str] | None) -> dict[str, Mark]:
    """Return the marks in the notes of a reader's commit, by the key of the raw table."""
    return {raw: Mark(**mark) for raw, mark in json.loads((notes or {}).get(NOTE, "{}")).items()}


def marks_note(marks: Mapping[str, Mark]) -> dict[str, str]:
    return {NOTE: json.dumps({raw: asdict(mark) for raw, mark in marks.items()}, sort_keys=True)} if marks else {}


def digest_of(source: SourceSpec, kinds: Mapping[str, str]) -> str:
    """Return a digest of what is read; ``kinds`` are those of the watermark columns.

    A mark of another table, filter or contract says nothing of the rows that the source has now. The dates in an
    endpoint's location and parameters do not count, because they differ from run to run.
    """
    options = {name: source.options.get(name) for name in ("query", "filter", "path", "timezone")}
    columns = sorted([column.name, column.type] for column in source.columns)
    if source.database is not None:
        place = source.database.place
        where = [place.kind, place.host, place.port, place.name, source.location]
    elif source.api is not None:
        where = [str(source.api.place), *(source.undated or (source.location, source.options.get("parameters", "")))]
    else:
        where = [source.format, source.location]
    described = json.dumps([where, options, columns, sorted(kinds.items())], sort_keys=True)
    return hashlib.sha256(described.encode()).hexdigest()


def advance_mark(mark: Mark | None, window: Window, *, own: bool) -> Mark | None:
    """Return a reader's mark after it took the rows of a window. ``own``: the reader's run read the window.

    The mark stays if the window begins after it, because the rows between are missing: a run that left this reader
    out has read it.
    """
    if window.by_hand and (own or window.start is None):
        return Mark(window.source, window.end, window.lows, window.is_repeated)
    is_known = mark is not None and mark.source == window.source and not _exceeding(mark.values, window.times)
    values = mark.values if mark is not None and is_known else None
    if window.start is not None and (values is None or not _reaches(values, window.start)):
        return mark
    return Mark(window.source, _combined(max, (values or {}, window.end)), window.lows, window.is_repeated)


def lower_marks(marks: Mapping[str, Mark], others: Mapping[str, Mark]) -> dict[str, Mark]:
    """Return the lower one of two marks of each raw table; none where one is missing or of another source."""
    both = {raw: (mark, others[raw]) for raw, mark in marks.items() if raw in others}
    lowest = {raw: _lowest(pair, pair[0].source) for raw, pair in both.items()}
    return {raw: replace(marks[raw], values=values) for raw, values in lowest.items() if values is not None}


def _lowest(marks: Iterable[Mark | None], source: str) -> Values | None:
    """Return the lowest values of the marks of this source; None without marks, and if one is missing or another's."""
    known = list(marks)
    of_source = [mark.values for mark in known if mark is not None and mark.source == source]
    if not known or len(of_source) < len(known):
        return None
    everywhere = set.intersection(*(set(values) for values in of_source))
    return {name: value for name, value in _combined(min, of_source).items() if name in everywhere}


def _combined(choose: Any, several: Iterable[Values]) -> dict[str, str]:
    combined: dict[str, str] = {}
    for values in several:
        for name, text in values.items():
            combined[name] = choose(combined.get(name, text), text, key=_parsed)
    return combined


def _exceeding(values: Values, times: Values | None) -> dict[str, str]:
    """Return the values that are later than the limits of dates and times."""
    limits = times or {}
    return {name: text for name, text in values.items() if name in limits and _parsed(text) > _parsed(limits[name])}


def _reaches(values: Values, start: Values) -> bool:
    return all(name in values and _parsed(values[name]) >= _parsed(text) for name, text in start.items())


@dataclass(frozen=True)
class Reading:
    """Request to read a source from the marks of its readers, or by hand: everything, or from ``since`` on.

    ``at`` is the time of the run, which limits marks of dates and times.
    """

    intake: Intake
    marks: tuple[Mark | None, ...] = ()
    full: bool = False
    since: str = ""
    at: datetime | None = None

    def window(
        self,
        source: SourceSpec,
        kinds: Mapping[str, str],
        highest: Mapping[str, str | None],
        zone: str = "UTC",
        measure: Measure | None = None,
    ) -> Window:
        """Return the window of the run; ``highest`` are the source's highest values, by watermark column.

        Rows ahead (``loader.domain.sources.mark_limits``) do not count, if there is a ``measure``. Raise Refusal
        WATERMARK_BACKWARDS, BAD_SINCE, or VALUE_DOES_NOT_FIT for infinity.
        """
        window = self.begin_window(source, kinds, zone)
        window = self.with_end(window, kinds, values_of(source.name, highest, kinds), measure)
        if not window.by_hand:
            self._refuse_backwards(source.name, window)
        return window

    def begin_window(self, source: SourceSpec, kinds: Mapping[str, str], zone: str = "UTC") -> Window:
        """Return the window of a run before the source's highest values are known. Raise Refusal BAD_SINCE.

        Marks that no load would write any more count for nothing, so that the rows below them are read.
        """
        digest, at = digest_of(source, kinds), self.at
        limits = {} if at is None else {n: time_limit(kind, at, self.intake, zone) for n, kind in kinds.items()}
        times = {n: text_of(limit) for n, limit in limits.items() if limit is not None and kinds[n] != NUMBER} or None
        if self.full:
            return Window(digest, None, {}, by_hand=True, times=times)
        if self.since:
            start = {name: text_of(self._since(name, kinds[name], zone)) for name in kinds}
            return Window(digest, start, {}, by_hand=True, times=times)
        passed = _combined(max, (_exceeding(mark.values, times) for mark in self._known(digest)))
        lowest = None if passed else _lowest(self.marks, digest)
        return Window(digest, lowest, {}, times=times, passed=passed or None)

    def with_end(
        self, window: Window, kinds: Mapping[str, str], highest: Mapping[str, Value], measure: Measure | None
    ) -> Window:
        """Return the window with its end, which leaves out rows ahead if there is a measure."""
        if measure is None:
            return replace(window, end=_texts(highest))
        known = [mark.lows or {} for mark in self._known(window.source)]
        limits = MarkLimits(
            kinds,
            _values(window.times),
            _values(window.start),
            _values(_combined(min, known)),
            self.intake.tolerance if isinstance(self.intake.tolerance, int) else None,
        )
        limited = limits.hold(highest, measure)
        return replace(
            window,
            end=_texts(limited.ends),
            lows=_texts(limited.lows) or None,
            limits=_texts(limited.limits) or None,
            ahead=dict(limited.ahead) or None,
        )

    def _known(self, digest: str) -> list[Mark]:
        return [mark for mark in self.marks if mark is not None and mark.source == digest]

    def bounds(self, window: Window) -> Values | None:
        """Return the values from which rows are read: the start of the window less the look-back."""
        if window.start is None or self.since:
            return window.start
        values = {name: self._earlier(_parsed(text)) for name, text in window.start.items()}
        return {name: text_of(value) for name, value in values.items() if value is not None}

    def _earlier(self, value: Value) -> Value | None:
        """Return the value less the look-back; None before the first date."""
        if self.intake.look_back is None:
            return value
        if isinstance(value, Decimal):
            return value - int(self.intake.look_back)
        try:
            return value - (self.intake.time_back or timedelta())
        except OverflowError:
            return None

    def _since(self, name: str, kind: str, zone: str) -> Value:
        try:
            return value_of(self.since, kind, zone)
        except ValueError:
            wanted = "a number" if kind == NUMBER else "a date or time like 2026-01-31 or 2026-01-31T08:00"
            raise Refusal(
                "BAD_SINCE",
                f"{self.since!r} is no value of the watermark column {name}",
                column=name,
                hint=f"Give {wanted}, or read everything (Read whole, --full).",
            ) from None

    def _refuse_backwards(self, shown: str, window: Window) -> None:
        known = [] if window.passed else [mark.values for mark in self._known(window.source)]
        self.refuse_lower(shown, _combined(max, known), window.end)

    def refuse_lower(self, shown: str, marks: Values, end: Values) -> None:
        """Raise Refusal WATERMARK_BACKWARDS if the highest values are below marks less the look-back."""
        for name, text in marks.items():
            least = self._earlier(_parsed(text))
            if name in end and least is not None and _parsed(end[name]) < least:
                back = f", less the look-back of {self.intake.look_back}" if self.intake.look_back else ""
                raise Refusal(
                    BACKWARDS,
                    f"{shown}: the highest value of {name} is below the mark of the last load{back}",
                    column=name,
                    samples=(f"highest: {end[name]}", f"mark: {text}"),
                    hint="The source was restored, or its clock put back. Load and read everything (Read whole, "
                    "--full), or from a value on (Read since, --since).",
                )


def finish_window(
    window: Window,
    shown: str,
    kinds: Mapping[str, str],
    highest: Mapping[str, str | None],
    reading: Reading | None = None,
    measure: Measure | None = None,
) -> Window:
    """Return the window of a source that names no highest values: those of the rows it delivered, or of the start.

    With the ``reading`` and a ``measure`` of the delivered rows, rows ahead do not count, and the window notes if rows
    with the value of the mark came again. Raise Refusal WATERMARK_BACKWARDS for rows that are all below the mark.
    """
    values = values_of(shown, highest, kinds)
    if reading is None or measure is None:
        return replace(window, end=_combined(max, (window.start or {}, _texts(values))))
    made, start = reading.with_end(window, kinds, values, measure), window.start or {}
    if not made.by_hand:
        reading.refuse_lower(shown, start, made.end)
    lowest = {name: measure.lowest(name) for name in start}
    again = bool(start) and all(low is not None and low <= _parsed(start[name]) for name, low in lowest.items())
    return replace(made, end=_combined(max, (start, made.end)), is_repeated=again)


def _texts(values: Mapping[str, Value]) -> dict[str, str]:
    return {name: text_of(value) for name, value in values.items()}


def _values(texts: Values | None) -> dict[str, Value]:
    return {name: _parsed(text) for name, text in (texts or {}).items()}


def values_of(shown: str, texts: Mapping[str, str | None], kinds: Mapping[str, str]) -> dict[str, Value]:
    """Return the values of columns that have one. Raise Refusal VALUE_DOES_NOT_FIT."""
    return {name: _highest(shown, name, text, kinds[name]) for name, text in texts.items() if text is not None}


def _highest(shown: str, name: str, text: str, kind: str) -> Value:
    try:
        return value_of(text, kind)
    except ValueError:
        raise Refusal(
            "VALUE_DOES_NOT_FIT",
            f"{shown}: the highest value of {name} cannot be a mark",
            column=name,
            samples=(text,),
            hint="Correct the value in the source, or leave its row out with the option filter.",
        ) from None
