"""Sources of a manifest: locations, formats, declared columns and systems."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from loader.contract.refusals import Refusal
from metadata.domain.sources.clusters import ClusterPlace
from metadata.domain.sources.database_locations import DatabasePlace
from metadata.domain.sources.rest_addresses import ApiPlace


@dataclass(frozen=True)
class DeliveredColumn:
    """Column that a source is declared to deliver. ``key`` is the source column's stable key."""

    key: str
    name: str
    type: str
    nullable: bool = True
    business_key: bool = False


@dataclass(frozen=True)
class DatabaseSpec:
    """Database of a source, and the name of the secret with its password.

    ``password`` is set by the runner alone (``with_passwords``): it is no part of the manifest on the pipe.
    """

    place: DatabasePlace
    secret: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True)
class ClusterSpec:
    """Kafka cluster of a source, its secret and ``password`` as those of a ``DatabaseSpec``."""

    place: ClusterPlace
    secret: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True)
class ApiSpec:
    """REST API of a source: base URL, options of the system, and the name of the secret for its authentication.

    ``password`` is set as that of a database.
    """

    place: ApiPlace
    options: dict[str, Any] = field(default_factory=dict)
    secret: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True)
class SourceSpec:
    """Location, format and declared columns of a delivery. ``metadata.domain.sources.reading_options`` has the options.

    ``one_row_per_key`` is False for dated rows: those of one key differ by their time. ``database`` is that of a
    source of format ``table``, whose location is the table; ``cluster`` that of one of format ``kafka``, whose location
    is the topic; ``api`` that of one of format ``rest``, whose location is the endpoint. ``intake`` selects the rows
    that are read (``metadata.domain.sources.intake``). ``undated`` are location and parameters of an endpoint with
    placeholders instead of the run's dates.
    """

    name: str
    location: str
    format: str
    columns: tuple[DeliveredColumn, ...]
    options: dict[str, Any] = field(default_factory=dict)
    one_row_per_key: bool = True
    database: DatabaseSpec | None = None
    cluster: ClusterSpec | None = None
    api: ApiSpec | None = None
    intake: dict[str, Any] = field(default_factory=dict)
    undated: tuple[str, ...] = ()

    @property
    def system(self) -> DatabaseSpec | ClusterSpec | ApiSpec | None:
        """Return the database, cluster or API of the source; None for files."""
        return self.database or self.cluster or self.api

    @property
    def secret(self) -> str:
        """Return the name of the secret that reading the source needs; empty if it needs none."""
        return self.system.secret if self.system else ""

    def check_password(self) -> None:
        """Raise Refusal SECRET_NOT_SET if the source needs a secret and has no password."""
        if self.system is not None and self.secret and not self.system.password:
            raise Refusal(
                "SECRET_NOT_SET",
                f"{self.name}: neither {self.secret} nor {self.secret}_FILE is set where the worker runs",
                hint="Set it for the worker and start that again, or correct the variable's name in the system.",
            )

    def with_password(self, values: Mapping[str, str]) -> "SourceSpec":
        """Return the source with the password of its system, from the values of secrets."""
        password = values.get(self.secret, "")
        if self.database is not None:
            return replace(self, database=replace(self.database, password=password))
        if self.cluster is not None:
            return replace(self, cluster=replace(self.cluster, password=password))
        return self if self.api is None else replace(self, api=replace(self.api, password=password))
