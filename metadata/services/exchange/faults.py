"""Faults of an import, collected so that one pass finds all of them."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from elevata.core.errors import MetadataError
from elevata.core.strict_fields import Record
from metadata.domain import naming

SYSTEM, SOURCE, SCHEMA, TARGET = "system", "source", "schema", "dataset"
Name = tuple[str, str]


class Consequence(MetadataError):
    """Fault that follows from another one, so it is not reported."""

    def __init__(self) -> None:
        super().__init__("follows", "follows from another fault")


class Faults:
    """Faults of an import, and the names of the objects that have one, or that could not be created because of one.

    Faults that only follow from the absence of such an object are left out: a reference to a refused dataset, a check
    of a dataset that lacks a refused column. ``is_unread`` tells that objects with unknown names could not be read.
    """

    def __init__(self, errors: Iterable[MetadataError] = (), *, is_unread: bool = False) -> None:
        self.errors = list(errors)
        self._is_unread = is_unread
        self._refused: set[Name] = set()

    @contextmanager
    def collected(self, record: Record, where: str, *names: Name) -> Iterator[None]:
        """Collect a MetadataError raised in the block, with its place, and regard ``names`` as refused."""
        try:
            with located(record, where):
                yield
        except MetadataError as error:
            self.refuse(*names)
            if not isinstance(error, Consequence):
                self.errors.append(error)

    @contextmanager
    def collected_unless_refused(self) -> Iterator[None]:
        """Collect a MetadataError of the block if no other fault can be its reason."""
        try:
            yield
        except MetadataError as error:
            if not self.errors:
                self.errors.append(error)

    def refuse(self, *names: Name) -> None:
        self._refused.update((kind, name.lower()) for kind, name in names)

    def is_refused(self, *names: Name) -> bool:
        """Return True if one of these objects has a fault, or is part of one that has."""
        return self._is_unread or any(self._is_refused(kind, name.lower()) for kind, name in names)

    def missing(self, error: MetadataError, *names: Name) -> MetadataError:
        """Return the error for missing objects, or a Consequence if one of them was refused."""
        return Consequence() if self.is_refused(*names) else error

    def _is_refused(self, kind: str, name: str) -> bool:
        above, _, own = name.partition(".")
        parts = {SOURCE: (SYSTEM, above), TARGET: (SCHEMA, above)}
        generated = kind == TARGET and ("generated", own.removesuffix(naming.HISTORY_SUFFIX)) in self._refused
        return generated or (kind, name) in self._refused or parts.get(kind) in self._refused

    def refuse_source(self, system: str, record: Record) -> None:
        """Regard a source dataset and the targets that would be generated from it as refused."""
        name = record["name"] or ""
        short_name = record["short_name"] or naming.safe_table_part(name)
        self.refuse((SOURCE, f"{system}.{name}"))
        self.refuse(
            *(("generated", naming.generated_name(layer, system, short_name)) for layer in naming.PREFIXES if name)
        )


@contextmanager
def located(record: Record, name: str = "") -> Iterator[None]:
    """Add the record's position in the file to a MetadataError raised inside, down to the field it names."""
    try:
        yield
    except MetadataError as problem:
        field_name = "business_key" if problem.field == "key_ordinal" else problem.field
        raise problem.about(name, record.place_of(field_name)) from None


def readable(records: Iterable[Record]) -> list[Record]:
    """Return the records whose own fields could all be read."""
    return [record for record in records if not record.refused]


def target_name(record: Record) -> Name:
    return TARGET, f"{record['schema']}.{record['name']}"


def twice(files: Iterable[Record]) -> list[MetadataError]:
    """Return errors for objects that occur twice, because the result would depend on the order of files.

    The second record of each is marked as refused.
    """
    seen: dict[tuple[Any, ...], str] = {}
    errors: list[MetadataError] = []
    for identity, item, parents in _identities(files):
        if identity[-1] is None:
            continue
        if identity not in seen:
            seen[identity] = item.where
            continue
        name = "key" if identity[0] == "key" else "name"
        message = f"{identity[-1]} is described twice, here and at {seen[identity]}"
        where = ".".join(_label(record) for record in (*parents, item))
        errors.append(MetadataError("described_twice", message, name, where, place=item.place_of(name)))
        item.refused.add(name)
        for parent in (item, *parents):
            parent.is_incomplete = True
    return errors


def _identities(files: Iterable[Record]) -> Iterator[tuple[tuple[Any, ...], Record, tuple[Record, ...]]]:
    """Yield what identifies each object, by name and by key, with its record and those that it is part of."""
    for file in files:
        for item in file["schemas"]:
            yield ("schema", item["name"]), item, ()
        if (system := file["system"]) is not None:
            yield ("system", system["short_name"]), system, ()
            for item in readable(system["datasets"]) if not system.refused else ():
                yield from _with_columns(("source", system["short_name"], item["name"]), item, (system,))
        if (target := file["dataset"]) is not None:
            yield from _with_columns(("dataset", target["schema"], _lower(target["name"])), target, ())


def _with_columns(
    identity: tuple[Any, ...], record: Record, parents: tuple[Record, ...]
) -> Iterator[tuple[tuple[Any, ...], Record, tuple[Record, ...]]]:
    """Yield a dataset and, unless it is described twice, its columns."""
    yield identity, record, parents
    yield ("key", record["key"]), record, parents
    for item in record["columns"] if not record.refused else ():
        yield (id(record), "column", _lower(item["name"])), item, (*parents, record)
        if not item.refused:
            yield ("key", item["key"]), item, (*parents, record)


def _label(record: Record) -> str:
    """Return the name of a record, of a system its short name."""
    values = record.values
    name = values["short_name"] if "datasets" in values else values["name"]
    return ".".join(filter(None, [values.get("schema"), name]))


def _lower(name: str | None) -> str | None:
    return name and name.lower()
