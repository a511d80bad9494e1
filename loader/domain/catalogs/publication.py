"""Comparison of the names to publish with the entries of a catalog.

Pure. A shared catalog may have entries of other programs. An entry is the warehouse's own if it is a table directly in
the warehouse's folder, or a view or function with the warehouse's mark. No other entry is replaced or dropped. Only the
runner uses the embedded catalog, so all its entries are the warehouse's own.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from architecture.domain.history_views import history_views
from architecture.domain.tables import history_table
from architecture.domain.views import with_inputs
from elevata.core.canonical_json import sha256_hex
from loader.contract.manifest.publication import PublishedName as Name
from loader.domain.catalogs.catalog import TABLE, VIEW, Entry
from loader.domain.catalogs.table_names import renamed_schemas, same_sql, with_other_names
from metadata.domain.history.history_policy import AS_OF, HistoryPolicy
from metadata.domain.naming import view_name
from metadata.domain.sql import quote_identifier, quote_text
from metadata.domain.state import DatasetState

FUNCTION = "function"
MISSING, OUTDATED, EXTRA, FOREIGN, FAILED = "missing", "outdated", "extra", "foreign", "failed"
# Problem of a definition that the catalog does not support, such as a view in a catalog of tables.
UNSUPPORTED = "unsupported"
# Problems that publishing cannot solve.
LASTING = frozenset({FOREIGN, FAILED, UNSUPPORTED})
_PURGED = (
    "the catalog would delete the table's files with the name, by its property external.table.purge; remove the "
    "property there, then run manage.py publish"
)
# Field of an answer.
INCOMPLETE = "incomplete"
MARK, DIGEST = "elevata.warehouse", "elevata.digest"
_KINDS = (TABLE, VIEW, FUNCTION)
# Between the head of a view's statement and its query.
_AS = "\nAS "
# User and password in the address of a file system.
_CREDENTIALS = re.compile(r"\A([^:/]+://)[^@/:]*:(?!\d+/)[^@]*@")
_COMMENT = "COMMENT 'The rows that held at this moment"


@dataclass(frozen=True)
class Held:
    """Entry of the catalog. ``location`` is that of an external Delta table, else empty.

    ``purged`` is True if the catalog deletes the table's files when the entry is dropped. ``text`` is the query of a
    view; None if the catalog does not return it.
    """

    name: str
    kind: str
    location: str = ""
    mark: str = ""
    digest: str = ""
    purged: bool = False
    text: str | None = None


@dataclass(frozen=True)
class Finding:
    """Difference between a name to publish and the catalog, or the reason why the name was not published."""

    name: str
    kind: str
    problem: str
    message: str = ""

    def one_line(self) -> str:
        return f"{self.name}: {self.problem}" + (f", {self.message}" if self.message else "")


def mark_of(warehouse: str) -> str:
    """Return the mark of the views and functions of a warehouse."""
    return sha256_hex(warehouse.rstrip("/"))[:16]


def names_of(
    entries: Iterable[Entry], states: Iterable[DatasetState], *, warehouse: str, prefix: str = ""
) -> tuple[Name, ...]:
    """Return the names to publish: tables, then views, then the functions over histories.

    ``entries`` are published names (``loader.domain.catalogs.catalog.catalog_of``), ``states`` their datasets.
    ``prefix`` precedes every schema, so that environments can share a catalog.
    """
    entries, mark = list(entries), mark_of(warehouse)
    tables = {entry.name: entry for entry in entries if entry.kind == TABLE}
    names = [Name(entry.name, TABLE, entry.dataset, key=entry.table.key) for entry in tables.values()]
    names += [_view(entry, tables, mark) for entry in entries if entry.kind == VIEW]
    names += [name for state in states for name in _functions(state, tables, mark)]
    names = [_with_prefix(name, prefix) for name in names] if prefix else names
    return tuple(sorted(names, key=lambda name: (_KINDS.index(name.kind), name.name)))


def _with_prefix(name: Name, prefix: str) -> Name:
    """Return the name with the prefix before its schema, and before those of the tables that it reads."""
    schemas = renamed_schemas([name.name, *(read for read, _ in name.reads)], prefix)
    reads = tuple((f"{prefix}{read}", key) for read, key in name.reads)
    statement = with_other_names(name.statement, schemas)
    return replace(name, name=f"{prefix}{name.name}", statement=statement, reads=reads)


def _view(entry: Entry, tables: Mapping[str, Entry], mark: str) -> Name:
    digest = _digest(entry.query, *(tables[name] for name in entry.reads))
    properties = f"{quote_text(MARK)} = {quote_text(mark)}, {quote_text(DIGEST)} = {quote_text(digest)}"
    name = ".".join(map(quote_identifier, entry.parts))
    statement = f"CREATE OR REPLACE VIEW {name}\nTBLPROPERTIES ({properties}){_AS}{entry.query}"
    reads = tuple((read, tables[read].table.key) for read in entry.reads)
    return Name(entry.name, VIEW, entry.dataset, statement=statement, digest=digest, reads=reads)


def _functions(state: DatasetState, tables: Mapping[str, Entry], mark: str) -> Iterable[Name]:
    """Return the as-of function of a history. The mark is in its comment, since functions have no properties."""
    if not state.active or not state.historize or state.history_key is None:
        return
    history = history_table(state)
    beneath = tables.get(history.qualified_name)
    if beneath is None or AS_OF not in HistoryPolicy.from_dict(state.history_policy).views:
        return
    name = f"{state.schema}.{view_name(state.name, AS_OF)}"
    for statement in history_views(state):
        if statement.startswith("CREATE OR REPLACE FUNCTION"):
            digest = _digest(statement, beneath)
            marked = statement.replace(_COMMENT, f"{_COMMENT} ({mark} {digest})", 1)
            reads = ((history.qualified_name, history.key),)
            yield Name(name, FUNCTION, state.key, statement=marked, digest=digest, reads=reads)


def _digest(sql: str | None, *beneath: Entry) -> str:
    columns = [[entry.name, [[column.name, column.type] for column in entry.table.columns]] for entry in beneath]
    return sha256_hex([sql or "", columns])[:16]


def compare(
    wanted: Sequence[Name],
    held: Iterable[Held],
    *,
    locations: Mapping[str, str],
    warehouse: str,
    mark: str,
    whole: bool,
    shared: bool = True,
) -> tuple[Finding, ...]:
    """Return the differences in the order in which publishing resolves them: extra entries first.

    ``locations`` are those of the wanted tables by stable key and ``warehouse`` its folder, both in the catalog's
    spelling. ``mark`` is that of its views and functions, ``held`` the entries of all schemas concerned. Unless the
    comparison is ``whole``, entries that are not ``wanted`` are ignored. In a catalog that is not ``shared``, no entry
    is foreign.
    """

    def of_warehouse(entry: Held) -> bool:
        return not shared or _is_own(entry, warehouse=warehouse, mark=mark)

    by_name = {(entry.kind == FUNCTION, entry.name.lower()): entry for entry in held}
    names = {(name.kind == FUNCTION, name.name.lower()) for name in wanted}
    findings = [
        _extra(entry)
        for place, entry in sorted(by_name.items())
        if whole and place not in names and of_warehouse(entry)
    ]
    foreign: set[str] = set()
    for name in wanted:
        entry = by_name.get((name.kind == FUNCTION, name.name.lower()))
        finding = _difference(name, entry, locations.get(name.key, ""), own=entry is None or of_warehouse(entry))
        if finding is None and any(read in foreign for read, _ in name.reads):
            finding = Finding(name.name, name.kind, OUTDATED)
        if finding is not None:
            findings.append(finding)
            if finding.problem == FOREIGN:
                foreign.add(name.name)
    return tuple(findings)


def _extra(entry: Held) -> Finding:
    return Finding(entry.name, entry.kind, FAILED, _PURGED) if entry.purged else Finding(entry.name, entry.kind, EXTRA)


def _difference(name: Name, entry: Held | None, location: str, *, own: bool) -> Finding | None:
    if entry is None:
        return Finding(name.name, name.kind, MISSING)
    if not own:
        return _foreign_finding(name, entry)
    if entry.purged:  # a table is altered in place, anything else would need a drop
        return Finding(name.name, name.kind, *((OUTDATED,) if name.kind == TABLE else (FAILED, _PURGED)))
    if entry.kind != name.kind or entry.digest != name.digest or (name.kind == TABLE and entry.location != location):
        return Finding(name.name, name.kind, OUTDATED)
    if name.kind == VIEW and entry.text is not None and not same_sql(entry.text, name.statement.partition(_AS)[2]):
        return Finding(name.name, name.kind, OUTDATED)
    return None


def _foreign_finding(name: Name, entry: Held) -> Finding:
    """Return the finding of a name that an entry of others has."""
    location = _CREDENTIALS.sub(r"\1", entry.location)
    at = f" at {location}" if location else ""
    message = f"the catalog has a {entry.kind}{at} of that name that is not of this warehouse"
    return Finding(name.name, name.kind, FOREIGN, f"{message}; rename or drop it there, then run manage.py publish")


def _is_own(entry: Held, *, warehouse: str, mark: str) -> bool:
    """Return True if an entry of a shared catalog is of this warehouse.

    Tables are directly in the warehouse's folder: deeper are other warehouses, and the databases of the catalog, which
    have tables of others.
    """
    if entry.kind == TABLE:
        folder, _, key = entry.location.rpartition("/")
        return folder == warehouse.rstrip("/") and not key.startswith(".")
    return entry.mark == mark


def concerned(states: Iterable[DatasetState], datasets: Collection[str]) -> tuple[DatasetState, ...]:
    """Return these datasets (by stable key), the views that read them, and all inputs of both."""
    by_key = {state.key: state for state in states}
    fed = {state.key: with_inputs(state, by_key) for state in by_key.values()}
    read = [
        state for state in by_key.values() if state.materialization == VIEW and not fed[state.key].isdisjoint(datasets)
    ]
    keys = set().union(*(fed[key] for key in (*datasets, *(state.key for state in read)) if key in fed))
    return tuple(state for state in by_key.values() if state.key in keys)


def narrowed(names: Iterable[Name], datasets: Collection[str]) -> tuple[Name, ...]:
    """Return the names of these datasets, by stable key, those of views over their tables, and of all tables beneath.

    A view is not published over a name of others, so the names of all tables that it reads are compared.
    """
    names = tuple(names)
    own = {name.name for name in names if name.dataset in datasets}
    chosen = own | {name.name for name in names if any(read in own for read, _ in name.reads)}
    beneath = {read for name in names if name.name in chosen for read, _ in name.reads}
    return tuple(name for name in names if name.name in chosen or (name.kind == TABLE and name.name in beneath))


def as_answer(findings: Iterable[Finding], count: int) -> dict[str, Any]:
    """Return the answer of a publication as JSON; ``count`` is the number of compared names."""
    rows = [
        {"name": finding.name, "kind": finding.kind, "problem": finding.problem}
        | ({"message": finding.message} if finding.message else {})
        for finding in findings
    ]
    return {"names": count, "findings": rows}


def incomplete_answer() -> dict[str, Any]:
    """Return the answer of a publication of some names that did nothing, because all must be published first."""
    return as_answer((), 0) | {INCOMPLETE: True}


def of_answer(answer: Mapping[str, Any]) -> tuple[Finding, ...]:
    return tuple(Finding(**row) for row in answer["findings"])
