"""Interface of a catalog that names are published in."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from architecture.domain.steps.statements import location_of
from loader.contract.manifest.publication import PublishedName as Name
from loader.contract.manifest.publication import PublishManifest
from loader.contract.refusals import Refusal
from loader.domain.catalogs.publication import (
    EXTRA,
    FAILED,
    FOREIGN,
    FUNCTION,
    LASTING,
    UNSUPPORTED,
    Finding,
    Held,
    compare,
)
from loader.engine.java_errors import JAVA_ERRORS, first_line, thrown_by
from loader.engine.pyspark_types import jvm_of

log = logging.getLogger(__name__)

# The SQL standard's state of a feature that is not supported.
_NOT_SUPPORTED = "0A000"


class Catalog(ABC):
    """Entries of a catalog in the schemas of a publication. Schemas are compared in lower case, as in Hive."""

    # Only the runner uses an unshared catalog.
    shared = True
    # Hint for a catalog that does not respond.
    remedy = ""

    def __init__(self, session: SparkSession, warehouse: str, manifest: PublishManifest) -> None:
        self.session, self.manifest, self.warehouse = session, manifest, warehouse
        self._names = {(name.kind == FUNCTION, name.name): name for name in manifest.names}
        self._warehouse = self.qualified(warehouse)
        # Unsolved problems by name. Views over such names are not published.
        self._problems: dict[str, str] = {}
        # Entries when last read, by name, and by True for functions.
        self.there: dict[tuple[bool, str], Held] = {}

    @abstractmethod
    def schemas(self) -> Iterable[str]:
        """Return the schemas of the catalog."""

    @abstractmethod
    def entries(self, schema: str, names: Collection[str] | None) -> Iterable[Held]:
        """Return the entries of a schema: with these names in lower case, or all."""

    @abstractmethod
    def put(self, name: Name) -> None:
        """Define a name, in place of the entry in ``there``; fail if the catalog has another one by now."""

    @abstractmethod
    def drop(self, name: str, kind: str) -> None:
        """Drop an entry of the warehouse."""

    def findings(self) -> list[Finding]:
        """Return the differences between the catalog and the names of the publication."""
        existing = {schema.lower() for schema in self.schemas()}
        schemas = sorted({schema.lower() for schema in self.manifest.schemas} & existing)
        entries = [entry for schema in schemas for entry in self.entries(schema, self._names_in(schema))]
        self.there = {(entry.kind == FUNCTION, entry.name.lower()): entry for entry in entries}
        return list(self._compare(self.manifest.names, entries, whole=self.manifest.whole))

    def _compare(self, names: Sequence[Name], entries: Iterable[Held], *, whole: bool) -> tuple[Finding, ...]:
        return compare(
            names,
            entries,
            locations={name.key: self.location(name.key) for name in names if name.key},
            warehouse=self._warehouse,
            mark=self.manifest.mark,
            whole=whole,
            shared=self.shared,
        )

    def _names_in(self, schema: str) -> Collection[str] | None:
        if self.manifest.whole:
            return None
        names = (name.name.lower().partition(".") for name in self.manifest.names)
        return {own for of, _, own in names if of == schema}

    def settled(self, finding: Finding) -> Finding | None:
        """Resolve a difference; return None, or the remaining finding."""
        remaining = finding if finding.problem in LASTING else self._resolve(finding)
        if remaining is not None:
            self._problems[remaining.name] = remaining.problem
        return remaining

    def _resolve(self, finding: Finding) -> Finding | None:
        place = (finding.kind == FUNCTION, finding.name.lower())
        try:
            if self.shared and place in self.there:
                again = self._read_again(finding)
                if again is not None and again.problem in LASTING:
                    return again
                if again is None and finding.problem == EXTRA:
                    return None
            if finding.problem == EXTRA:
                self.drop(finding.name, finding.kind)
                return None
            name = self._names[(finding.kind == FUNCTION, finding.name)]
            beneath = next((read for read, _ in name.reads if read in self._problems), None)
            if beneath is None:
                self.put(name)
                return None
            problem, message = self._problems[beneath], f"it reads {beneath}, which is not published"
            if problem == FOREIGN and place in self.there:  # it would show rows of others
                self.drop(finding.name, self.there[place].kind)
        except Refusal as refusal:
            problem, message = FAILED, refusal.one_line()
        except JAVA_ERRORS as failure:
            problem, message = UNSUPPORTED if is_unsupported(failure) else FAILED, innermost(failure)
            if problem == FAILED:
                self.must_answer()
        return Finding(finding.name, finding.kind, FAILED if problem == FOREIGN else problem, message)

    def _read_again(self, finding: Finding) -> Finding | None:
        """Compare an entry right before it is replaced or dropped: others may have put theirs in its place."""
        is_function, (schema, _, own) = finding.kind == FUNCTION, finding.name.lower().partition(".")
        entries = [entry for entry in self.entries(schema, {own}) if (entry.kind == FUNCTION) == is_function]
        self.there.pop((is_function, finding.name.lower()))
        self.there |= {(is_function, entry.name.lower()): entry for entry in entries}
        is_extra = finding.problem == EXTRA
        names = () if is_extra else (self._names[(is_function, finding.name)],)
        return next(iter(self._compare(names, entries, whole=is_extra)), None)

    def must_answer(self) -> None:
        """Raise the catalog's error if it does not answer, instead of waiting for it at each further name."""
        list(self.schemas())

    def readable(self, read: Callable[[], Held], name: str, kind: str) -> Held:
        """Return an entry, or one of others without location and mark if its definition cannot be read."""
        try:
            return read()
        except JAVA_ERRORS as failure:
            self.must_answer()
            log.info("%s cannot be read: %s", name, innermost(failure))
            return Held(name, kind)

    def location(self, key: str) -> str:
        """Return the location of a table in the catalog's spelling."""
        return location_of(key, self._warehouse)

    def located(self, location: Any) -> str:
        """Return the location of an entry, as text or URI, in the spelling of the warehouse's if it may be in it.

        Other file systems are not opened: their classes or servers may be missing.
        """
        scheme = _scheme(str(location))
        return self.qualified(location) if scheme in ("", _scheme(self._warehouse)) else str(location)

    def qualified(self, location: Any) -> str:
        """Return a location with the scheme and authority of its file system."""
        path = jvm_of(self.session).org.apache.hadoop.fs.Path(location)
        return path.getFileSystem(self.session._jsc.hadoopConfiguration()).makeQualified(path).toString()


def _scheme(location: str) -> str:
    scheme, colon, _ = location.partition("/")[0].partition(":")
    return scheme.lower() if colon else ""


def marked(text: str, mark: str) -> tuple[str, str]:
    """Return the mark and the digest in a function's text; both are empty for a function of another warehouse."""
    _, mark_found, rest = text.partition(f"({mark} ")
    return (mark, rest.partition(")")[0]) if mark_found else ("", "")


def innermost(failure: Exception) -> str:
    """Return the innermost cause of a failure, since catalogs wrap errors of their server several times."""
    thrown = [error for error in thrown_by(failure) if error.message.strip()]
    if not thrown:
        return first_line(failure)
    return f"{thrown[-1].name.rpartition('.')[2]}: {thrown[-1].message.strip().splitlines()[0][:500]}"


def is_unsupported(failure: Exception) -> bool:
    """Return True if the catalog does not support a statement."""
    state = getattr(failure, "getSqlState", None)
    return state is not None and state() == _NOT_SUPPORTED
