"""Refusals for errors of databases, by SQLSTATE, since messages may be in any language."""

from dataclasses import dataclass

from elevata.core.installation import user_command
from loader.contract.manifest.sources import SourceSpec
from loader.contract.refusals import Refusal
from loader.domain.database_kinds import engine_of
from loader.domain.sources.databases import CONNECT_SECONDS
from metadata.domain.sources.database_locations import DatabasePlace

# A number behind a state is the database's own error number.
_SIGN_IN = ("28", "S0001-18456", "72000-1017")
_NO_DATABASE = ("3D000", "42000-1049", "S0001-4060", "66000-12514")
_NO_PERMISSION = ("42501", "42000-1044", "42000-1142", "42000-1143", "42000-1031")
_NO_TABLE = ("42P01", "42S02", "3F000", "S0002-208", "42000-942")
_SLOW = ("57014", "70100", "HY000-3024", "HYT00", "72000-1013")
_LOST = ("08", "57P", "53300", "HY000-2013")
_VALUE = ("22", "21")
_STATEMENT = ("42",)


@dataclass(frozen=True)
class DatabaseError:
    """SQLSTATE and message of an error; ``no_driver`` is true if Java lacks the driver's class."""

    state: str
    message: str
    no_driver: bool = False

    def among(self, states: tuple[str, ...]) -> bool:
        return self.state.startswith(states)


def refusal_of(error: DatabaseError, source: SourceSpec, *, timeout: int, started: bool, lost: bool = False) -> Refusal:
    """Return the refusal for an error.

    ``timeout`` is in seconds, ``started`` true if rows were being read, ``lost`` if the runner's connection is closed.
    """
    assert source.database is not None
    place, secret = source.database.place, source.database.secret
    code, message, hint = explain(error, place, secret, timeout, started=started, lost=lost)
    return Refusal(code, f"{source.name}: {message}", hint=hint, file=source.location)


def explain(
    error: DatabaseError,
    place: DatabasePlace,
    secret: str,
    timeout: int,
    *,
    started: bool = False,
    lost: bool = False,
    connect_seconds: int = CONNECT_SECONDS,
) -> tuple[str, str, str]:
    """Return code, message and hint for an error of a database; see ``refusal_of``.

    ``timeout`` is the limit of a statement, ``connect_seconds`` that of a connection.
    """
    first = next(iter(error.message.strip().splitlines()), "no message")[:300]
    lost = lost or started and error.among(_LOST)
    if error.no_driver:
        engine = engine_of(place)
        message = f"Spark has no JDBC driver of {engine.title}"
        hint = f"Name {engine.package} in ELEVATA_SPARK_PACKAGES and run {user_command('setup')}."
        return "DRIVER_MISSING", message, hint
    if lost:
        message = f"the connection to {place} was lost while rows were read: {first}"
        return "SOURCE_GONE", message, "Nothing was loaded. Run again under the same id once the database is back."
    if error.among(_SIGN_IN):
        return sign_in_refused(place, secret)
    if error.among(_NO_DATABASE):
        return "NO_SUCH_DATABASE", f"{place.host} has no database {place.name}", "Correct the system's location."
    if error.among(_NO_PERMISSION):
        return "NOT_ALLOWED", f"{place} refuses: {first}", "The user needs SELECT on it."
    if error.among(_NO_TABLE):
        hint = "Names are case-sensitive. Correct the source's location or query, or create the table."
        return "MISSING_TABLE", f"{place} has no such table: {first}", hint
    if error.among(_SLOW):
        message = f"{place} needed longer than {timeout:,} seconds for a statement, or an administrator stopped it"
        return "TOO_SLOW", message, "Run again when it has less to do, give the option timeout, or read fewer rows."
    if error.among(_VALUE):
        hint = "Correct the value, the query or the filter; the database's log has the value."
        return "SOURCE_FAILED", f"{place} cannot compute a value (SQLSTATE {error.state})", hint
    if error.among(_STATEMENT):
        return "SQL_INVALID", f"{place} refuses the statement: {first}", "Correct the options query and filter."
    if started or (error.state and not error.among(_LOST)):
        state = f"SQLSTATE {error.state}" if error.state else "without an SQLSTATE"
        return "SOURCE_FAILED", f"{place}: {first} ({state})", "See what the database's log says."
    hint = f"Is it running, and may this machine reach it? It has {connect_seconds} seconds to answer."
    return "NOT_REACHED", f"{place}: {first}", hint


def sign_in_refused(place: DatabasePlace, secret: str) -> tuple[str, str, str]:
    """Return code, message and hint for a user that the database does not let in."""
    credentials = f"the password in {secret}" if secret else "no password (the system names no variable)"
    message = f"{place} is there, but does not let {place.user or 'the user'} in with {credentials}"
    return "SIGN_IN_REFUSED", message, "Correct the user in the system's location, or the password in the variable."
