"""Results that the clients of all databases share: connection tests and samples of tables."""

from collections.abc import Sequence

from loader.contract.refusals import Refusal
from loader.domain.sources.sampling import SampledColumn
from loader.sources.page_limits import MAX_COLUMNS
from loader.sources.results import ConnectionResult, Sample, sampled
from metadata.domain.sources.database_locations import DatabasePlace

# Kinds of databases that loader.sources.mariadb reads.
MARIADB_KINDS = ("mariadb", "mysql")


def connection_result(
    place: DatabasePlace, *, server: str, user: str, tables: int, is_encrypted: bool
) -> ConnectionResult:
    """Return the result of a connection test that succeeded."""
    facts = (
        ("Database", str(place)),
        ("Server", server),
        ("Signed in as", user),
        ("Tables that may be read", f"{tables:,}"),
        ("Connection", "encrypted" if is_encrypted else "not encrypted"),
    )
    message = "The database answers." if tables else "The database answers, but there is no table this user may read."
    return ConnectionResult(message, facts)


def check_columns(location: str, count: int, *, hint: str) -> None:
    """Raise Refusal MISSING_TABLE, with the hint, for a table without columns, and TOO_MANY_COLUMNS."""
    if not count:
        raise Refusal("MISSING_TABLE", f"there is no table {location} that may be read", hint=hint)
    if count > MAX_COLUMNS:
        raise Refusal(
            "TOO_MANY_COLUMNS",
            f"{location} has {count:,} columns; pages sample tables of at most {MAX_COLUMNS:,}",
            hint="Import the source from YAML; loads can read it.",
        )


def sample_of_table(
    location: str,
    columns: list[SampledColumn],
    records: Sequence[tuple],
    *,
    wanted: int,
    key: tuple[str, ...],
    notes: tuple[str, ...],
) -> Sample:
    """Return the sample of a table: columns of the catalog, and up to ``wanted`` rows, a tuple of texts each."""
    values = [list(column) for column in zip(*records, strict=True)] or [[] for _ in columns]
    is_whole = len(records) < wanted and not notes
    return sampled(columns, values, whole=is_whole, typed=True, where=location, key=key, notes=notes)
