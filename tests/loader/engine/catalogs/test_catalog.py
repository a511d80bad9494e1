"""Resolution of differences in a shared catalog that others change at the same time, or that stops answering."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

import pytest
from py4j.protocol import Py4JError

from loader.contract.manifest.publication import PublishedName, PublishManifest
from loader.domain.catalogs.catalog import TABLE, VIEW
from loader.domain.catalogs.publication import FUNCTION, Held
from loader.engine.catalogs import publication
from loader.engine.catalogs.catalog import Catalog

WAREHOUSE, MARK = "file:/w", "m"
NAMES = tuple(PublishedName(f"raw.t{number}", TABLE, key, key=key) for number, key in enumerate("abc"))
VIEW_NAME = PublishedName("stage.v", VIEW, "v", statement="…", digest="1", reads=(("raw.t0", "a"),))
SCHEMAS = ("raw", "stage")


class Fake(Catalog):
    """Catalog in memory, with a hook before each change."""

    def __init__(self, held: Collection[Held], wanted: Collection[PublishedName]) -> None:
        self.held = {entry.name: entry for entry in held}
        self.calls: list[tuple[str, str]] = []
        self.answers, self.before = True, lambda change: None
        super().__init__(None, WAREHOUSE, PublishManifest(tuple(wanted), SCHEMAS, MARK, "thrift://m"))

    def qualified(self, location: str) -> str:
        return location

    def schemas(self) -> list[str]:
        if not self.answers:
            raise Py4JError("connection refused")
        return list(SCHEMAS)

    def entries(self, schema: str, names: Collection[str] | None) -> Iterator[Held]:
        self.schemas()
        for entry in list(self.held.values()):
            of, _, own = entry.name.partition(".")
            if of == schema and (names is None or own in names):
                yield entry
        self.before("change")

    def put(self, name: PublishedName) -> None:
        self.calls.append(("put", name.name))
        self.schemas()
        self.held[name.name] = Held(
            name.name, name.kind, f"{WAREHOUSE}/{name.key}" if name.key else "", mark=MARK, digest=name.digest
        )

    def drop(self, name: str, kind: str) -> None:
        self.calls.append(("drop", name))
        del self.held[name]


def published(catalog: Fake) -> dict[str, str]:
    answer = publication._publish(catalog, catalog.manifest)
    return {row["name"]: row["problem"] for row in answer["findings"]}


def once(change: Callable[[], None]) -> Callable[[str], None]:
    """Return a hook that makes a change of others after the first reading of both schemas."""
    readings = []

    def hook(_: str) -> None:
        readings.append(1)
        if len(readings) == len(SCHEMAS):
            change()

    return hook


@pytest.mark.parametrize("wanted", [(NAMES[0],), ()], ids=["outdated", "extra"])
def test_entry_that_others_put_in_place_of_one_of_the_warehouse_is_neither_replaced_nor_dropped(wanted):
    catalog, theirs = Fake([Held("raw.t0", TABLE, f"{WAREHOUSE}/z")], wanted), Held("raw.t0", TABLE)
    catalog.before = once(lambda: catalog.held.update({"raw.t0": theirs}))
    assert published(catalog) == dict.fromkeys((name.name for name in wanted), "foreign")
    assert (catalog.calls, catalog.held) == ([], {"raw.t0": theirs})


def test_table_that_became_one_whose_files_a_drop_deletes_is_not_dropped():
    catalog = Fake([Held("raw.t0", TABLE, f"{WAREHOUSE}/z")], ())
    purged = replace(catalog.held["raw.t0"], purged=True)
    catalog.before = once(lambda: catalog.held.update({"raw.t0": purged}))
    assert published(catalog) == {"raw.t0": "failed"}
    assert catalog.calls == []


def test_function_of_others_does_not_keep_a_table_of_its_name_from_being_replaced():
    catalog = Fake([Held("raw.t0", TABLE, f"{WAREHOUSE}/z")], (NAMES[0],))
    catalog.held["function"] = Held("raw.t0", FUNCTION)
    assert published(catalog) == {}
    assert catalog.calls == [("put", "raw.t0")]


def test_view_over_a_name_that_others_took_is_dropped():
    current = Held("stage.v", VIEW, mark=MARK, digest="1")
    catalog = Fake([Held("raw.t0", TABLE), current], (NAMES[0], VIEW_NAME))
    assert published(catalog) == {"raw.t0": "foreign", "stage.v": "failed"}
    assert catalog.calls == [("drop", "stage.v")]


def test_publication_ends_at_the_first_name_when_the_catalog_stops_to_answer():
    catalog = Fake([], NAMES)
    catalog.before = once(lambda: setattr(catalog, "answers", False))
    with pytest.raises(Py4JError, match="connection refused"):
        published(catalog)
    assert catalog.calls == [("put", "raw.t0")]
