"""Manifests of names to publish in a catalog."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedName:
    """A name to publish (``loader.domain.catalogs.publication``). ``kind`` is table, view or function.

    ``key`` is the stable key of a table; ``statement`` defines a view or function.
    ``reads`` are pairs (name, stable key) of the tables that a view or function reads. ``digest`` covers the statement
    and the columns of those tables.
    """

    name: str
    kind: str
    dataset: str
    key: str = ""
    statement: str = ""
    digest: str = ""
    reads: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class PublishManifest:
    """Names to publish in a catalog, or with ``check`` only to compare with it.

    ``schemas`` are those that the warehouse uses or used: with ``whole``, entries of the warehouse in them that are
    not among ``names`` are extra. ``mark`` identifies the warehouse's views and functions in the catalog
    (``loader.domain.catalogs.publication.mark_of``), ``address`` is the setting ELEVATA_CATALOG.
    """

    names: tuple[PublishedName, ...]
    schemas: tuple[str, ...]
    mark: str
    address: str
    check: bool = False
    whole: bool = True
