"""Interface of a catalog that names are published in."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any

from pyspark.sql import SparkSession

from architecture.domain.steps.statements import location_of
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
from loader.domain.manifest import PublishedName as Name
from loader.domain.manifest import PublishManifest
from loader.domain.refusals import Refusal
from loader.spark.session import first_line, thrown_by
from loader.spark.sources.files import JAVA_ERRORS

# The SQL standard's state of a feature that is not supported.
_NOT_SUPPORTED = "0A000"


class Catalog(ABC):
    """Entries of a catalog in the schemas of a publication. Schemas are compared in lower case, as Hive has them."""

    # An unshared catalog belongs to the runner alone.
    shared = True
    # How to make the catalog answer again.
    remedy = ""

    def __init__(self, session: SparkSession, warehouse: str, manifest: PublishManifest) -> None:
        self.session, self.manifest, self.warehouse = session, manifest, warehouse
        self._names = {(name.kind == FUNCTION, name.name): name for name in manifest.names}
        self._warehouse = self.qualified(warehouse)
        # Problems that are left, by name: no view is published over a table of another warehouse, or over none.
        self._left: dict[str, str] = {}
        # Entries by name, functions apart, as they were last read.
        self.there: dict[tuple[bool, str], Held] = {}

    @abstractmethod
    def schemas(self) -> Iterable[str]:
        """Return the schemas of the catalog."""

    @abstractmethod
    def entries(self, schema: str, names: Collection[str] | None) -> Iterable[Held]:
        """Return the entries of a schema: with these names in lower case, or all."""

    @abstractmethod
    def put(self, name: Name) -> None:
        """Define a name, in place of an entry of the warehouse."""

    @abstractmethod
    def drop(self, name: str, kind: str) -> None:
        """Drop an entry of the warehouse."""

    def findings(self) -> list[Finding]:
        """Return the differences between the catalog and the names of the publication."""
        there = {schema.lower() for schema in self.schemas()}
        schemas = sorted({schema.lower() for schema in self.manifest.schemas} & there)
        held = [entry for schema in schemas for entry in self.entries(schema, self._asked(schema))]
        self.there = {(entry.kind == FUNCTION, entry.name.lower()): entry for entry in held}
        found = compare(
            self.manifest.names,
            held,
            locations={name.key: self.location(name.key) for name in self.manifest.names if name.key},
            warehouse=self._warehouse,
            mark=self.manifest.mark,
            whole=self.manifest.whole,
            shared=self.shared,
        )
        return list(found)

    def _asked(self, schema: str) -> Collection[str] | None:
        if self.manifest.whole:
            return None
        names = (name.name.lower().partition(".") for name in self.manifest.names)
        return {own for of, _, own in names if of == schema}

    def settled(self, finding: Finding) -> Finding | None:
        """Settle a difference; return None if it is, else what is left."""
        left = finding if finding.problem in LASTING else self._settled(finding)
        if left is not None:
            self._left[left.name] = left.problem
        return left

    def _settled(self, finding: Finding) -> Finding | None:
        try:
            if finding.problem == EXTRA:
                self.drop(finding.name, finding.kind)
                return None
            name = self._names[(finding.kind == FUNCTION, finding.name)]
            beneath = next((read for read, _ in name.reads if read in self._left), None)
            if beneath is None:
                self.put(name)
                return None
            problem, message = self._left[beneath], f"it reads {beneath}, which is not published"
        except Refusal as refusal:
            problem, message = FAILED, refusal.one_line()
        except JAVA_ERRORS as failure:
            problem, message = UNSUPPORTED if is_unsupported(failure) else FAILED, innermost(failure)
        return Finding(finding.name, finding.kind, FAILED if problem == FOREIGN else problem, message)

    def location(self, key: str) -> str:
        """Return the location of a table as the catalog writes it."""
        return location_of(key, self._warehouse)

    def qualified(self, location: Any) -> str:
        """Return a location with the scheme and authority of its file system, as both sides write it."""
        path = self.session._jvm.org.apache.hadoop.fs.Path(location)
        return path.getFileSystem(self.session._jsc.hadoopConfiguration()).makeQualified(path).toString()


def marked(text: str, mark: str) -> tuple[str, str]:
    """Return the mark and the digest in a function's text; both empty where it is not of this warehouse."""
    _, found, rest = text.partition(f"({mark} ")
    return (mark, rest.partition(")")[0]) if found else ("", "")


def innermost(failure: Exception) -> str:
    """Return the first cause of a failure: catalogs wrap what their server says several times."""
    thrown = [one for one in thrown_by(failure) if one.message.strip()]
    if not thrown:
        return first_line(failure)
    return f"{thrown[-1].name.rpartition('.')[2]}: {thrown[-1].message.strip().splitlines()[0][:500]}"


def is_unsupported(failure: Exception) -> bool:
    """Return True for a statement that the catalog has no way to perform."""
    state = getattr(failure, "getSqlState", None)
    return state is not None and state() == _NOT_SUPPORTED
