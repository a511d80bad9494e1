"""Names of generated objects, and checks of names.

Table names may contain only [A-Za-z0-9_], because Delta's catalog refuses other characters. A column may have any
delivered name that is visible and can be quoted.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence

from elevata.core.errors import MetadataError
from metadata.domain.history.history_columns import NAMES as HISTORY_COLUMNS
from metadata.domain.history.history_policy import AS_OF, CHANGES, CURRENT, HIGH_END_DATE, OPERATIONS
from metadata.domain.text_formats import VARIABLE

HISTORY_SUFFIX = "_hist"
# Suffixes of the objects published with a history. Choosing AS_OF publishes PERIODS as well.
EVENT_LOG_SUFFIX = "_events"
PERIODS = "periods"
VIEW_SUFFIXES = {
    HIGH_END_DATE: "_high",
    CURRENT: "_current",
    AS_OF: "_as_of",
    PERIODS: "_periods",
    CHANGES: "_changes",
    OPERATIONS: "_ops",
}
KEY_SUFFIX = "_key"
PREFIXES = {"raw": "raw", "stage": "stg", "rawcore": "rc"}
# Rows of these layers have no entity key, so their datasets have no references.
KEYLESS_LAYERS = ("raw", "stage")

# The catalog's limit is 128; a history and its published objects need room for their suffixes.
MAX_TABLE_NAME = 128 - len(HISTORY_SUFFIX) - max(map(len, (EVENT_LOG_SUFFIX, *VIEW_SUFFIXES.values())))
MAX_SYSTEM_NAME = 20
MAX_COLUMN_CHARACTERS = 200
MAX_COLUMN_BYTES = 255

# The columns that architecture.domain.tables adds to every loaded table.
LOAD_COLUMNS = ("load_run_id", "loaded_at")
# Columns of raw tables with the provenance of a row: its file, page, partition, table or query, and its number therein.
PROVENANCE_COLUMNS = ("source_file", "source_row")
# Column of raw tables with the day of the load, by which they may be partitioned.
LOAD_DAY = "loaded_on"
# Prefixes of the engine's temporary columns, and of some technical ones.
ENGINE_PREFIX = "__"

_SPELLED = {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"}
_TABLE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)


class NameProblem(MetadataError):
    """Error for a name that cannot be used."""

    def __init__(self, message: str, field: str = "name") -> None:
        super().__init__("bad_name", message, field)


def generated_name(layer: str, system: str, dataset: str) -> str:
    """Return ``raw_air_airport``, ``stg_air_airport`` or ``rc_air_airport``."""
    return f"{PREFIXES[layer]}_{system}_{dataset}"


def history_name(base: str) -> str:
    return f"{base}{HISTORY_SUFFIX}"


def event_log_name(base: str) -> str:
    """Return the name of a history's event log (rule 11)."""
    return history_name(base) + EVENT_LOG_SUFFIX


def base_name(table: str) -> str:
    """Return the name of the base table of a history or event log; other names are returned unchanged."""
    for suffix in (HISTORY_SUFFIX + EVENT_LOG_SUFFIX, HISTORY_SUFFIX):
        if table.lower().endswith(suffix):
            return table[: -len(suffix)]
    return table


def view_name(base: str, view: str) -> str:
    """Return the name of a view over the history of ``base``, like ``rc_air_airport_hist_current``."""
    return history_name(base) + VIEW_SUFFIXES[view]


def entity_key_name(dataset: str) -> str:
    """Return the name of the column of ``dataset`` with the hash of its business key."""
    return f"{dataset}{KEY_SUFFIX}"


def foreign_key_name(role_name: str, parent: str) -> str:
    """Return the name of the column that refers to ``parent``, derived from the role's name or the parent's."""
    return f"{role_name or parent}{KEY_SUFFIX}"


def reserved_column_names(layer: str, dataset: str) -> frozenset[str]:
    """Return the names of a dataset's technical columns in lower case, which other columns cannot have.

    History columns of all profiles are reserved in every rawcore dataset, so that a history can be enabled and its
    profile changed without a conflict of names.
    """
    if layer == "raw":
        return frozenset((*LOAD_COLUMNS, *PROVENANCE_COLUMNS, LOAD_DAY))
    own = (entity_key_name(dataset), f"{history_name(dataset)}{KEY_SUFFIX}", "row_hash")
    return frozenset(name.lower() for name in (*LOAD_COLUMNS, *HISTORY_COLUMNS, *own))


def reserved_prefix(layer: str) -> str:
    """Return the prefix that names of columns cannot have; empty for raw, which uses the delivered names."""
    return "" if layer == "raw" else ENGINE_PREFIX


def check_table_name(name: str, *, history: bool = False, field: str = "name") -> None:
    """Refuse a name that Delta's catalog refuses, or that has a reserved suffix."""
    limit = MAX_TABLE_NAME + (len(HISTORY_SUFFIX) if history else 0)
    if not _TABLE_NAME.fullmatch(name):
        raise NameProblem(f"{name[:100]!r} must start with a letter and hold only A-Z, a-z, 0-9 and _", field)
    if len(name) > limit:
        raise NameProblem(f"{name!r} is {len(name)} characters long; {limit} are possible", field)
    if name.lower().endswith(HISTORY_SUFFIX) != history:
        raise NameProblem(
            f"{name!r} must end in {HISTORY_SUFFIX}"
            if history
            else f"the suffix {HISTORY_SUFFIX} is reserved for history tables, so {name!r} is not possible",
            field,
        )
    for suffix in (EVENT_LOG_SUFFIX, *VIEW_SUFFIXES.values()):
        if name.lower().endswith(HISTORY_SUFFIX + suffix):
            raise NameProblem(
                f"the suffix {HISTORY_SUFFIX}{suffix} is reserved for what stands beside a history table, "
                f"so {name!r} is not possible",
                field,
            )


def check_short_name(name: str, *, field: str = "short_name", limit: int = MAX_SYSTEM_NAME) -> None:
    """Refuse a short name that cannot be part of a table name."""
    check_table_name(name, field=field)
    if len(name) > limit:
        raise NameProblem(f"{name!r} is {len(name)} characters long; {limit} are possible", field)


def check_column_name(
    name: str, *, reserved: Collection[str] = (), reserved_prefix: str = "", field: str = "name"
) -> None:
    """Refuse a column name that is invisible, too long, reserved or used by the engine.

    ``reserved`` is in lower case.
    """
    if not name.strip():
        raise NameProblem("a column needs a name that can be seen", field)
    odd = next((c for c in name if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")), None)
    if odd is not None:
        raise NameProblem(f"{name[:100]!r} holds the control character U+{ord(odd):04X}", field)
    if len(name) > MAX_COLUMN_CHARACTERS or len(name.encode()) > MAX_COLUMN_BYTES:
        raise NameProblem(
            f"{name[:50]!r}… is too long: {MAX_COLUMN_CHARACTERS} characters and "
            f"{MAX_COLUMN_BYTES} bytes of UTF-8 are possible",
            field,
        )
    if VARIABLE in name:
        raise NameProblem(f"{name!r} holds {VARIABLE}, which would stand for a variable of the worker", field)
    if name.lower() in reserved:
        raise NameProblem(f"{name!r} is the name of a technical column here", field)
    if reserved_prefix and name.startswith(reserved_prefix):
        raise NameProblem(
            f"{name[:100]!r} begins with {reserved_prefix}, as the engine's own columns do; begin it otherwise", field
        )


def safe_column_name(name: str, ordinal: int) -> str:
    """Return a name that has only letters, digits and _, derived from ``name`` or its ordinal.

    A name that needs no change is returned as it is. The engine's prefix is removed: ``__op`` becomes ``op``.
    """
    if re.fullmatch(r"[^\W\d]\w*", name) and not name.startswith(ENGINE_PREFIX):
        return name
    composed = unicodedata.normalize("NFC", name)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", composed)
    safe = re.sub(r"_+", "_", re.sub(r"\W+", "_", words)).strip("_").lower()
    if not safe:
        return f"column_{ordinal}"
    return safe if re.match(r"[^\W\d]", safe) else f"c_{safe}"


def plain_column_name(name: str, ordinal: int) -> str:
    """Return a name of lower-case ASCII letters, digits and _: ``Straße`` becomes ``strasse``."""
    spelled = "".join(_SPELLED.get(letter, letter) for letter in unicodedata.normalize("NFC", name))
    plain = unicodedata.normalize("NFKD", spelled).encode("ascii", "ignore").decode()
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain if plain.strip() else name)
    return safe_column_name(words, ordinal).lower()


def target_names(columns: Sequence[tuple[str, str]], reserved: Iterable[str]) -> list[str]:
    """Return unique names in stage and rawcore for columns, given as (delivered name, requested name or empty).

    Requested names are assigned first, then delivered names that need no change, then the others; within each group
    in file order.
    """

    def priority(index: int) -> int:
        delivered, requested = columns[index]
        return 0 if requested else 1 if safe_column_name(delivered, 0) == delivered else 2

    taken, names = set(reserved), [""] * len(columns)
    for index in sorted(range(len(columns)), key=priority):
        delivered, requested = columns[index]
        names[index] = free_name(requested or safe_column_name(delivered, index + 1), taken)
        taken.add(names[index])
    return names


def safe_table_part(name: str) -> str:
    """Return a short name for a delivered dataset: ``Sales Orders.csv`` becomes ``sales_orders_csv``."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    safe = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9]+", "_", plain)).strip("_").lower()
    return safe if safe[:1].isalpha() else f"d_{safe}".rstrip("_")


def free_name(name: str, taken: Iterable[str]) -> str:
    """Return ``name``, or the first of ``name_2``, ``name_3`` … that is not taken, ignoring case."""
    used = {other.lower() for other in taken}
    candidate, number = name, 1
    while candidate.lower() in used:
        number += 1
        ending = f"_{number}"
        candidate = name[: MAX_COLUMN_CHARACTERS - len(ending)] + ending
    return candidate
