"""Fold of events in Spark SQL: versions computed from the event log of a key.

The rules are those of ``loader.domain.reference``, written as higher-order functions that run in the JVM, key by key.
This module only builds SQL text; tests run both implementations on the same batches.
"""

from collections.abc import Callable
from dataclasses import dataclass

from loader.domain.historization.history import CHANGED, DELETED, NEW, Choices, Era
from loader.domain.historization.sql_arrays import any_of, append, last, let, struct
from metadata.domain.history.history_policy import IGNORE, TOMBSTONE, HistoryPolicy
from metadata.domain.sql import quote_text

# Event logs in Spark SQL (rules 8 to 16); the same as ``loader.domain.reference``'s table and timeline. An
# event is the struct ``at, rank, own, kind, seq, run, loaded, cols, v``, in this order, so that an array of events
# sorts by ``at``, then ``rank``, then ``own``. ``v`` has the values as fields ``c0, c1, …``; ``cols`` lists the
# delivered columns by stable key (rule 16). A version is the struct ``start, until, state, opened, loaded, closed,
# closed_at, v``.
VALUE, DELETE, ABSENT, RETURN = "value", "delete", "absent", "return"
LIVE = "live"


@dataclass(frozen=True)
class Column:
    """Column of the data; in the fold it is ``c<position>``.

    ``compared`` is its type if it is compared by value (``compared_texts``); the text for this is ``n<position>``.
    """

    key: str
    name: str
    type: str
    compared: str = ""


def _comparing(of: Callable[[Choices, str], bool], *, by_value: bool) -> Callable[[Choices, str], bool]:
    """Return the selection of the columns of ``of`` that are compared by value, or of the others."""
    return lambda choices, key: of(choices, key) and (key in dict(choices.by_value)) == by_value


@dataclass(frozen=True)
class EventFold:
    """Fold of one table: its policy, its columns, the Spark type of its times.

    ``eras`` are one or more, oldest first: an event is compared by the choices of the run that delivered it.
    """

    policy: HistoryPolicy
    columns: tuple[Column, ...]
    time_type: str
    eras: tuple[Era, ...]

    @property
    def tombstones(self) -> bool:
        return self.policy.deletes == TOMBSTONE

    @property
    def value_names(self) -> list[str]:
        """Return the fields of ``v``: values by position, then the texts by which some are compared."""
        numbered = list(enumerate(self.columns))
        return [f"c{i}" for i, _ in numbered] + [f"n{i}" for i, column in numbered if column.compared]

    def compared(self, index: int) -> str:
        """Return the field of ``v`` by which a column is compared."""
        return f"{'n' if self.columns[index].compared else 'c'}{index}"

    @property
    def values_type(self) -> str:
        types = {f"c{i}": column.type for i, column in enumerate(self.columns)}
        described = ", ".join(f"{name}: {types.get(name, 'STRING')}" for name in self.value_names)
        return f"STRUCT<{described}>"

    @property
    def event_type(self) -> str:
        time = self.time_type
        return (
            f"STRUCT<at: {time}, rank: INT, own: {time}, kind: STRING, seq: BIGINT, run: STRING, "
            f"loaded: TIMESTAMP, cols: STRING, v: {self.values_type}>"
        )

    @property
    def version_type(self) -> str:
        time = self.time_type
        return (
            f"STRUCT<start: {time}, until: {time}, state: STRING, opened: STRING, loaded: TIMESTAMP, "
            f"closed: STRING, closed_at: TIMESTAMP, v: {self.values_type}>"
        )

    def no_events(self) -> str:
        return f"CAST(array() AS ARRAY<{self.event_type}>)"

    def no_versions(self) -> str:
        return f"CAST(array() AS ARRAY<{self.version_type}>)"

    # --- comparison -------------------------------------------------------------------------------

    def columns_text(self, keys: tuple[str, ...]) -> str:
        """Return a set of columns in the form of ``cols``: sorted, each between commas."""
        return "," + ",".join(sorted(keys)) + ","

    def _is_delivered(self, event: str, index: int) -> str:
        return f"contains({event}.cols, {quote_text(f',{self.columns[index].key},')})"

    def _differs(self, event: str, values: str, of: Callable[[Choices, str], bool]) -> str:
        """Return the condition that a delivered column differs in ``values`` (rule 16); ``of`` selects columns."""
        differences = []
        for i, column in enumerate(self.columns):
            for name, by_value in ((f"c{i}", False), (f"n{i}", True)):
                during = self._era_condition(event, column, _comparing(of, by_value=by_value))
                if during is not None:
                    differs = f"{self._is_delivered(event, i)} AND NOT ({event}.v.{name} <=> {values}.{name})"
                    differences.append(f"({differs}{f' AND {during}' if during else ''})")
        return any_of(differences)

    def _era_condition(self, event: str, column: Column, of: Callable[[Choices, str], bool]) -> str | None:
        """Return the condition that ``of`` selects the column in the event's era; None for never, empty for always."""
        holds = [of(era.choices, column.key) for era in self.eras]
        if all(holds) or not any(holds):
            return "" if holds[0] else None
        spans = []
        for n, era in enumerate(self.eras):
            if holds[n]:
                after_start = [f"{event}.seq >= {era.since}L"] if n else []
                before_end = [f"{event}.seq < {self.eras[n + 1].since}L"] if n + 1 < len(self.eras) else []
                spans.append(f"({' AND '.join(after_start + before_end)})")
        return any_of(spans)

    def _overlay(self, values: str, event: str, of: Callable[[Choices, str], bool] | None = None) -> str:
        """Return ``values`` overlaid with those delivered by ``event``, of all columns or those that ``of`` selects."""
        fields = {}
        for i, column in enumerate(self.columns):
            old, new = f"{values}.c{i}", f"{event}.v.c{i}"
            during = "" if of is None else self._era_condition(event, column, of)
            takes = f"{self._is_delivered(event, i)}{f' AND {during}' if during else ''}"
            fields[f"c{i}"] = old if during is None else f"IF({takes}, {new}, {old})"
            if column.compared:
                fields[f"n{i}"] = fields[f"c{i}"].replace(old, f"{values}.n{i}").replace(new, f"{event}.v.n{i}")
        return struct(**{name: fields[name] for name in self.value_names})

    # --- the fold ---------------------------------------------------------------------------------

    def versions(self, events: str, prefix: str = "f") -> str:
        """Return the versions of a sorted array of events, oldest first. ``prefix`` makes names of lambdas unique."""
        acc, event = f"{prefix}_acc", f"{prefix}_e"
        start = struct(done=self.no_versions(), cur=f"CAST(NULL AS {self.version_type})")
        folded = f"aggregate({self._effective(events, prefix)}, {start}, ({acc}, {event}) -> {self._step(acc, event)})"
        whole = f"{prefix}_all"
        return let(whole, folded, f"IF({whole}.cur IS NULL, {whole}.done, {append(f'{whole}.done', f'{whole}.cur')})")

    def _effective(self, events: str, prefix: str) -> str:
        """Return the last event in order of each time; only these affect versions."""
        log = f"{prefix}_log"
        return let(log, events, f"filter({log}, (x, i) -> NOT (get({log}, i + 1).at <=> x.at))")

    def _live(self, cur: str) -> str:
        live = f"{cur} IS NOT NULL AND {cur}.until IS NULL"
        return f"({live} AND {cur}.state <> '{DELETED}')" if self.tombstones else f"({live})"

    def _step(self, acc: str, event: str) -> str:
        cur = f"{acc}.cur"
        put = (
            f"CASE WHEN NOT {self._live(cur)} THEN {self._after_opening(acc, event)} "
            f"WHEN {self._differs(event, f'{cur}.v', Choices.opens)} THEN {self._after_change(acc, event)} "
        )
        if any(era.choices.in_place for era in self.eras):
            updated = self._version(cur, v=self._overlay(f"{cur}.v", event, Choices.updates))
            put += (
                f"WHEN {self._differs(event, f'{cur}.v', Choices.updates)} "
                f"THEN {struct(done=f'{acc}.done', cur=updated)} "
            )
        put += f"ELSE {acc} END"
        return (
            f"CASE WHEN {event}.kind NOT IN ('{DELETE}', '{ABSENT}') THEN {put} "
            f"WHEN {self._live(cur)} THEN {self._after_delete(acc, event)} ELSE {acc} END"
        )

    def _after_opening(self, acc: str, event: str) -> str:
        """Return the state after an event that opens a key, possibly again; it ends an open tombstone."""
        cur = f"{acc}.cur"
        previous = cur
        if self.tombstones:
            closed = self._version(cur, until=f"{event}.at", closed=f"{event}.run", closed_at=f"{event}.loaded")
            previous = f"IF({cur}.until IS NULL, {closed}, {cur})"
        done = f"IF({cur} IS NULL, {acc}.done, {append(f'{acc}.done', previous)})"
        return struct(done=done, cur=self._opened_version(event, LIVE if self.tombstones else NEW))

    def _after_change(self, acc: str, event: str) -> str:
        state = LIVE if self.tombstones else CHANGED
        closed = self._closed_version(f"{acc}.cur", event, state)
        return struct(done=append(f"{acc}.done", closed), cur=self._opened_version(event, state))

    def _after_delete(self, acc: str, event: str) -> str:
        cur = f"{acc}.cur"
        if not self.tombstones:
            return struct(done=f"{acc}.done", cur=self._closed_version(cur, event, DELETED))
        tombstone = self._opened_version(event, DELETED, values=f"{cur}.v")
        return struct(done=append(f"{acc}.done", self._closed_version(cur, event, LIVE)), cur=tombstone)

    def _opened_version(self, event: str, state: str, values: str | None = None) -> str:
        return struct(
            start=f"{event}.at",
            until=f"CAST(NULL AS {self.time_type})",
            state=quote_text(state),
            opened=f"{event}.run",
            loaded=f"{event}.loaded",
            closed="CAST(NULL AS STRING)",
            closed_at="CAST(NULL AS TIMESTAMP)",
            v=values or f"{event}.v",
        )

    def _closed_version(self, version: str, event: str, state: str) -> str:
        return self._version(
            version, until=f"{event}.at", state=quote_text(state), closed=f"{event}.run", closed_at=f"{event}.loaded"
        )

    @staticmethod
    def _version(version: str, **changes: str) -> str:
        names = ("start", "until", "state", "opened", "loaded", "closed", "closed_at", "v")
        return struct(**{name: changes.get(name, f"{version}.{name}") for name in names})

    # --- delivered rows ------------------------------------------------------------------------------

    def came_back(self, log: str, rows: str) -> str:
        """Return the condition of rule 9: the key was closed by absence, and its newest row is not after that end."""
        ended, newest = last(log), last(rows)
        return f"coalesce({ended}.kind = '{ABSENT}' AND NOT {newest}.is_delete AND {newest}.own <= {ended}.at, false)"

    def returns(self, log: str, rows: str, came_back: str, run_at: str) -> str:
        """Return the rows that rule 9 dated by a run, as ``own, at``: those in the log, and that of this run."""
        in_log = f"transform(filter({log}, x -> x.kind = '{RETURN}'), x -> {struct(own='x.own', at='x.at')})"
        of_run = struct(own=f"{last(rows)}.own", at=run_at)
        return f"IF({came_back}, {append(in_log, of_run)}, {in_log})"

    def candidates(self, log: str, rows: str, returns: str) -> str:
        """Return each row as an event for the log, with True in ``known`` if the log already has it."""
        dated = (
            f"coalesce(array_max(transform(filter({returns}, b -> b.own <= r.own AND r.own < b.at), b -> b.at)), r.own)"
        )
        kind = (
            f"CASE WHEN r.is_delete THEN '{DELETE}' WHEN exists({returns}, b -> b.at = at) "
            f"THEN '{RETURN}' ELSE '{VALUE}' END"
        )
        event = struct(
            at="at",
            rank=f"CAST(CASE kind WHEN '{VALUE}' THEN 0 WHEN '{DELETE}' THEN 1 ELSE 2 END AS INT)",
            own="r.own",
            kind="kind",
            seq="r.seq",
            run="r.run",
            loaded="r.loaded",
            cols="r.cols",
            v="r.v",
        )
        logged = f"get(filter({log}, x -> x.at = at AND x.own = r.own AND x.kind <> '{ABSENT}'), 0)"
        body = let("at", dated, let("kind", kind, let("e", event, let("k", logged, self._correct("k", "e")))))
        return f"transform({rows}, r -> {body})"

    def _correct(self, known: str, event: str) -> str:
        """Return a row's event by rule 10: a row of a known time corrects its event; a delete overrides a value."""
        tracked_only = self.policy.untracked == "keep" and self.policy.track is not None
        differs = self._differs(event, f"{known}.v", Choices.opens if tracked_only else Choices.compares)
        columns = f"concat_ws('', ',', array_join(array_sort(array_distinct(filter(concat(split({known}.cols, ','), split({event}.cols, ',')), c -> c <> ''))), ','), ',')"  # noqa: E501
        merged = struct(
            at=f"{known}.at",
            rank=f"{known}.rank",
            own=f"{known}.own",
            kind=f"{known}.kind",
            seq=f"{event}.seq",
            run=f"{known}.run",
            loaded=f"{known}.loaded",
            cols=columns,
            v=self._overlay(f"{known}.v", event),
        )
        return (
            f"CASE WHEN {known} IS NULL THEN {struct(e=event, known='false')} "
            f"WHEN {known}.kind = '{DELETE}' THEN {struct(e=known, known='true')} "
            f"WHEN {event}.kind = '{DELETE}' THEN {struct(e=event, known='false')} "
            f"WHEN {differs} THEN {struct(e=merged, known='false')} "
            f"ELSE {struct(e=known, known='true')} END"
        )

    def with_event(self, log: str, event: str) -> str:
        """Return the log with an event, instead of one of the same time."""
        others = f"filter({log}, x -> x.kind = '{ABSENT}' OR NOT (x.at = {event}.at AND x.own = {event}.own))"
        return f"array_sort({append(others, event)})"

    def admitted(self, log: str, candidates: str, came_back: str, forgotten: str | None) -> str:
        """Return the candidates that enter the log: ``admitted, log, late, ignored, beyond, refused`` (rules 10, 11).

        A row is late if it is not after the log's newest time before the batch. Only if late rows may be refused, each
        is compared with the history that it would change.
        """
        newest = f"{last(log)}.at"
        is_late = f"(coalesce(c.e.at <= {newest}, false) AND NOT ({came_back} AND i = size({candidates}) - 1))"
        if self.policy.late == "split" and forgotten is None:
            new = f"transform(filter({candidates}, c -> NOT c.known), c -> c.e)"
            late = f"size(filter({candidates}, (c, i) -> NOT c.known AND {is_late}))"
            replaced = "exists(new, n -> n.at = x.at AND n.own = x.own)"
            remaining = f"filter({log}, x -> x.kind = '{ABSENT}' OR NOT {replaced})"
            return let(
                "new",
                new,
                struct(
                    admitted="new", log=f"array_sort(concat({remaining}, new))", late=late, ignored="0", beyond="0",
                    refused=f"CAST(array() AS ARRAY<{self.time_type}>)",
                ),
            )  # fmt: skip
        return self._admitted_singly(log, candidates, is_late, forgotten)

    def _admitted_singly(self, log: str, candidates: str, is_late: str, forgotten: str | None) -> str:
        start = struct(
            admitted=self.no_events(), log=log, late="0", ignored="0", beyond="0",
            refused=f"CAST(array() AS ARRAY<{self.time_type}>)",
        )  # fmt: skip
        names = ("admitted", "log", "late", "ignored", "beyond", "refused")

        def with_(**changes: str) -> str:
            return struct(**{name: changes.get(name, f"a.{name}") for name in names})

        with_event = self.with_event("a.log", "c.e")
        accepted = {"admitted": append("a.admitted", "c.e"), "log": with_event}
        alters = f"NOT ({self._visible('a.log', 'va')} <=> {self._visible(with_event, 'vb')})"
        if self.policy.late == "refuse":
            not_accepted = with_(refused=append("a.refused", "c.e.own"))
        elif self.policy.late == IGNORE:
            not_accepted = with_(ignored="a.ignored + 1")
        else:
            beyond, late = with_(beyond="a.beyond + 1"), with_(late="a.late + 1", **accepted)
            not_accepted = f"IF(c.e.own < {forgotten}, {beyond}, {late})"
        step = (
            f"CASE WHEN c.known THEN a WHEN NOT c.late THEN {with_(**accepted)} "
            f"WHEN {alters} THEN {not_accepted} ELSE {with_(**accepted)} END"
        )
        with_lateness = f"transform({candidates}, (c, i) -> {struct(e='c.e', known='c.known', late=is_late)})"
        return f"aggregate({with_lateness}, {start}, (a, c) -> {step})"

    def _visible(self, log: str, prefix: str) -> str:
        fields = struct(start="x.start", until="x.until", state="x.state", v="x.v")
        return f"transform({self.versions(log, prefix)}, x -> {fields})"

    def absent(self, log: str, event: str) -> str:
        """Return the log of a key that is closed by absence (rule 8), without events from that time on."""
        return append(f"filter({log}, x -> x.at < {event}.at)", event)

    def is_live(self, versions: str) -> str:
        return self._live(last(versions))
