"""Fold of history batch files in Spark SQL (rules 18 to 21); the same as ``loader.domain.reference.batch_files``.

A version is the struct ``start, until, active, opened, loaded, closed, closed_at, v``; the versions of a key are an
array sorted by start. A row of a file is ``at, until, active, marked, v``: ``marked`` has a boolean for each column,
true if the update file left it as before.
"""

from dataclasses import dataclass

from loader.domain.historization.fold import Column
from loader.domain.historization.sql_arrays import append, last, let, struct

_VERSION = ("start", "until", "active", "opened", "loaded", "closed", "closed_at", "v")


@dataclass(frozen=True)
class FilesFold:
    """Fold of one history batch over one table. ``run`` and ``loaded`` are SQL literals."""

    columns: tuple[Column, ...]
    run: str
    loaded: str

    @property
    def values_type(self) -> str:
        return f"STRUCT<{', '.join(f'c{i}: {column.type}' for i, column in enumerate(self.columns))}>"

    @property
    def version_type(self) -> str:
        return (
            "STRUCT<start: TIMESTAMP, until: TIMESTAMP, active: BOOLEAN, opened: STRING, loaded: TIMESTAMP, "
            f"closed: STRING, closed_at: TIMESTAMP, v: {self.values_type}>"
        )

    def no_versions(self) -> str:
        return f"CAST(array() AS ARRAY<{self.version_type}>)"

    def after(self, old: str, earliest: str, upserts: str, updates: str, deletes: str) -> str:
        """Return ``vs, ignored``: the key's versions after the four files in order (rule 18), and the rows ignored."""
        rewound = f"aggregate({earliest}, {old}, (vs, s) -> {self._end_at('filter(vs, v -> v.start < s)', 's')})"
        covered = f"get({earliest}, 0)"
        start = struct(vs="rewound", ignored="0")
        put = self._put("a", "r", covered, "true", old)
        inserted = self._put("a", "r", covered, "false", old)
        removed = self._delete("a", "at")
        steps = f"aggregate({upserts}, {start}, (a, r) -> {inserted})"
        steps = f"aggregate({updates}, {steps}, (a, r) -> {put})"
        return let("rewound", rewound, f"aggregate({deletes}, {steps}, (a, at) -> {removed})")

    def _ended_version(self, version: str, at: str) -> str:
        changes = {"until": at, "active": "false", "closed": self.run, "closed_at": self.loaded}
        return struct(**{name: changes.get(name, f"{version}.{name}") for name in _VERSION})

    def _end_at(self, versions: str, start: str) -> str:
        """Return the versions; those that reach ``start`` end 1 ms before it, even if closed already (rule 18)."""
        ended = self._ended_version("v", f"({start} - INTERVAL '0.001' SECOND)")
        return f"transform({versions}, v -> IF(v.start < {start} AND {start} <= v.until, {ended}, v))"

    def _put(self, acc: str, row: str, earliest: str, may_be_marked: str, before: str) -> str:
        """Return the state after a row of an upsert or update file (rules 19 and 20).

        An earliest start covers rows that start at it or later; a row that is not covered ends its predecessor.
        """
        values = struct(
            **{f"c{i}": f"IF({row}.marked[{i}], src.v.c{i}, {row}.v.c{i})" for i in range(len(self.columns))}
        )
        opened = struct(
            start=f"{row}.at", until=f"{row}.until", active=f"{row}.active", opened=self.run, loaded=self.loaded,
            closed="CAST(NULL AS STRING)", closed_at="CAST(NULL AS TIMESTAMP)",
            v=values if may_be_marked == "true" else f"{row}.v",
        )  # fmt: skip
        others = f"filter({acc}.vs, v -> v.start <> {row}.at)"
        remaining = f"IF(coalesce({earliest} <= {row}.at, false), {others}, {self._end_at(others, f'{row}.at')})"
        done = struct(vs=f"array_sort({append(remaining, opened)})", ignored=f"{acc}.ignored")
        if may_be_marked == "false":
            return done
        previous = last(f"filter({acc}.vs, v -> v.start < {row}.at)")
        newest = struct(active="v.active", start="v.start", it="v")
        last_active = f"array_max(transform({before}, v -> {newest})).it"
        ignored = struct(vs=f"{acc}.vs", ignored=f"{acc}.ignored + 1")
        return let("src", f"coalesce({previous}, {last_active})", f"IF(src IS NULL, {ignored}, {done})")

    def _delete(self, acc: str, at: str) -> str:
        """Return the state after a delete (rule 20): it ends the version in force at its time, or is ignored."""
        in_force = f"array_max(transform(filter({acc}.vs, v -> v.start <= {at} AND {at} <= v.until), v -> v.start))"
        ended = f"transform({acc}.vs, v -> IF(v.start = force, {self._ended_version('v', at)}, v))"
        ignored = struct(vs=f"{acc}.vs", ignored=f"{acc}.ignored + 1")
        return let("force", in_force, f"IF(force IS NULL, {ignored}, {struct(vs=ended, ignored=f'{acc}.ignored')})")
