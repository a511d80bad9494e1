"""Manifest of a copy run."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from loader.contract.manifest.sources import DatabaseSpec
from metadata.domain.copies import HASH


@dataclass(frozen=True)
class CopyColumn:
    """Column of a copy: its name and type in the product, its type in the target, and what becomes of its values.

    ``treatment`` is include or hash (``metadata.domain.copies``); columns that are left out are not listed.
    """

    name: str
    type: str
    physical: str
    treatment: str
    key: bool = False


@dataclass(frozen=True)
class CopyTarget:
    """Target of a copy, by the stable key of the copy.

    ``database`` is that of kind jdbc; ``location`` the file or folder of the others. ``former_table`` is the name
    under which the copy was made before, empty if it had none. ``shape`` is the digest of columns and treatments,
    ``former_shape`` that of the copy in the target, as far as it is known. ``owners`` are the names that the dataset
    has or had: a table of another one is not touched.
    """

    key: str
    system: str
    kind: str
    table: str
    mode: str
    columns: tuple[CopyColumn, ...]
    shape: str
    owners: tuple[str, ...]
    environment: str
    database: DatabaseSpec | None = None
    location: str = ""
    former_table: str = ""
    former_shape: str = ""

    @property
    def secret(self) -> str:
        return self.database.secret if self.database is not None else ""

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the names of the key columns whose values are copied; empty if one of them is hashed."""
        keys = [column for column in self.columns if column.key]
        return () if any(column.treatment == HASH for column in keys) else tuple(column.name for column in keys)


@dataclass(frozen=True)
class CopyManifest:
    """Copies of a dataset's table, whose stable key is ``dataset``.

    With ``check`` the targets are only compared. With ``verify`` a target that has the present version is compared
    with its checksum, and copied again if it differs. ``secret`` is the key of hashed values, ``sensitive`` as in
    ``RawcoreLoad``.
    """

    run_id: str
    dataset: str
    name: str
    targets: tuple[CopyTarget, ...]
    check: bool = False
    verify: bool = False
    sensitive: tuple[str, ...] = ()
    secret: str = ""

    @property
    def secrets(self) -> frozenset[str]:
        """Return the names of the secrets that the targets need."""
        return frozenset(target.secret for target in self.targets) - {""}

    def with_passwords(self, values: Mapping[str, str]) -> "CopyManifest":
        """Return the manifest with the password of each database, from the values of its secrets."""
        return replace(self, targets=tuple(_with_password(target, values) for target in self.targets))


def _with_password(target: CopyTarget, values: Mapping[str, Any]) -> CopyTarget:
    if target.database is None:
        return target
    return replace(target, database=replace(target.database, password=values.get(target.database.secret, "")))
