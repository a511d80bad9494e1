"""Rules for healthy metadata: findings about a dataset and what surrounds it.

Rules complement the checks that refuse a row when it is saved: they find what an edit of another dataset, an import or
an older version left behind, and what works but is probably not meant.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from architecture.domain.type_changes import TypeChange, classify
from elevata.accounts.places import LAYERS
from elevata.core.errors import MetadataError
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.quoted_names import needs_quotes
from metadata.domain.state import TECHNICAL, ColumnState, DatasetState
from metadata.domain.types import STRING, parse

# Identifiers of PostgreSQL, the shortest of the widespread limits.
MAX_IDENTIFIER = 63
_ORDER = tuple(LAYERS)
# Named as in other tools for rows that carry the times of their versions, whose column is not named or not there.
EFFECTIVE_COLUMN_REQUIRED = "scd2-effective-column-required"


class Severity(StrEnum):
    """Severity of a finding: loads or executions fail, values may be lost or wrong, or a hint."""

    ERROR = "error"
    WARNING = "warning"
    HINT = "hint"


class Fix(StrEnum):
    """Safe change that resolves a finding: it changes no values, and can be undone."""

    TAKE_OWNER = "take_owner"
    RETIRE = "retire"


FIXES = {Fix.TAKE_OWNER.value: "Take the owner of its inputs", Fix.RETIRE.value: "Retire the dataset"}


@dataclass(frozen=True)
class Finding:
    """Finding about a dataset, or about one of its columns (``column`` is its stable key).

    ``field`` is the field of the row where it is corrected.
    """

    code: str
    severity: Severity
    text: str
    field: str = ""
    column: str = ""
    fix: str = ""


@dataclass(frozen=True)
class Concern:
    """Finding about a report, a schedule or a source, which is read when it is shown and has no row of its own."""

    code: str
    severity: Severity
    subject: str
    text: str
    link: str


@dataclass(frozen=True)
class Source:
    """Source dataset that a target dataset reads. ``types`` are the types of its active columns, by stable key."""

    name: str
    active: bool = True
    owner: str = ""
    types: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Surroundings:
    """Context of the datasets that are examined, by stable keys.

    ``datasets`` are the examined ones and their inputs, ``reads`` are the datasets that each dataset reads, of the
    whole warehouse. ``read`` are datasets with an active reader.
    """

    datasets: Mapping[str, DatasetState] = field(default_factory=dict)
    sources: Mapping[str, Source] = field(default_factory=dict)
    owners: Mapping[str, str] = field(default_factory=dict)
    personal: frozenset[str] = frozenset()
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    read: frozenset[str] = frozenset()


def findings_of(dataset: DatasetState, around: Surroundings) -> list[Finding]:
    """Return the findings about a dataset; none about a retired one."""
    return [finding for rule in RULES for finding in rule(dataset, around)] if dataset.active else []


def _policy(dataset: DatasetState, around: Surroundings) -> Iterator[Finding]:
    try:
        policy = HistoryPolicy.from_dict(dataset.history_policy)
        policy.check_historize(dataset.historize)
        key = [column.name for column in dataset.business_key]
        if key and policy.is_honoured(historize=dataset.historize):
            types = {column.name: parse(column.type) for column in dataset.active_columns}
            delivered = _input_names(dataset, around) if policy.delivered_only else ()
            policy.check_described(types, key, delivered)
    except MetadataError as problem:
        code = EFFECTIVE_COLUMN_REQUIRED if _is_undated(dataset, problem) else "policy"
        yield Finding(code, Severity.ERROR, f"The history policy cannot work: {problem.message}.", problem.field)


def _is_undated(dataset: DatasetState, problem: MetadataError) -> bool:
    """Return True for the problem that the column is missing by which rows date their versions."""
    if problem.field != "history_policy.time" or not isinstance(dataset.history_policy, dict):
        return False
    return dataset.history_policy.get("time") not in {column.name for column in dataset.active_columns}


def _input_names(dataset: DatasetState, around: Surroundings) -> set[str]:
    inputs = (around.datasets[key] for key in dataset.inputs if key in around.datasets)
    return {column.name.lower() for state in inputs for column in state.active_columns}


def _key(dataset: DatasetState, around: Surroundings) -> Iterator[Finding]:
    if dataset.business_key or not dataset.active_columns:
        return
    if dataset.historize:
        yield Finding("no_key", Severity.ERROR, "History needs a business key, and there is none.", "columns")
    elif dataset.layer == "rawcore" and dataset.materialization == "table" and not dataset.history_policy:
        text = "There is no business key: repeated rows and changes cannot be told apart."
        yield Finding("no_key", Severity.WARNING, text, "columns")


def _owner(dataset: DatasetState, around: Surroundings) -> Iterator[Finding]:
    names = [column.name for column in dataset.active_columns if column.key in around.personal]
    if not names or around.owners.get(dataset.key):
        return
    fix = Fix.TAKE_OWNER if owner_above(dataset, around) else ""
    text = f"Nobody owns the personal data in {_listed(names)}."
    yield Finding("no_owner", Severity.WARNING, text, "owner", fix=fix)


def owner_above(dataset: DatasetState, around: Surroundings) -> str:
    """Return the owner that all inputs of a dataset share; empty if they have none or several."""
    owners = {
        around.sources[key].owner if key in around.sources else around.owners.get(key, "") for key in dataset.inputs
    }
    return owners.pop() if len(owners) == 1 else ""


def _inputs(dataset: DatasetState, around: Surroundings) -> Iterator[Finding]:
    if not dataset.inputs and not dataset.select:
        yield Finding("no_input", Severity.ERROR, "No input fills the dataset.", "inputs")
    for key in dataset.inputs:
        upstream = around.sources.get(key) or around.datasets.get(key)
        if upstream is not None and not upstream.active:
            name = upstream.name if isinstance(upstream, Source) else upstream.qualified_name
            yield Finding("retired_input", Severity.ERROR, f"The input {name} is retired.", "inputs")


def _layers(dataset: DatasetState, around: Surroundings) -> Iterator[Finding]:
    for key in dataset.inputs:
        upstream = around.datasets.get(key)
        if upstream is None:
            if key in around.sources and dataset.layer != "raw":
                text = f"{around.sources[key].name} is read without a raw table."
                yield Finding("layer_skipped", Severity.WARNING, text, "inputs")
            continue
        distance = _ORDER.index(dataset.layer) - _ORDER.index(upstream.layer)
        if distance < 0:
            text = f"{upstream.qualified_name} is in the layer {upstream.layer}, above {dataset.layer}."
            yield Finding("layer_backwards", Severity.WARNING, text, "inputs")
        elif distance > 1 and not (dataset.layer == "serving" and upstream.layer == "rawcore"):
            text = f"{upstream.qualified_name} is read from {upstream.layer}: a layer in between is skipped."
            yield Finding("layer_skipped", Severity.WARNING, text, "inputs")


def _names(dataset: DatasetState, around: Surroundings) -> Iterator[Finding]:
    named = [(dataset.name, ""), *((column.name, column.key) for column in dataset.active_columns)]
    for name, column in named:
        if len(name) > MAX_IDENTIFIER:
            text = f"{name} has {len(name)} characters; many databases take {MAX_IDENTIFIER}."
            yield Finding("long_name", Severity.WARNING, text, "name", column)
        if needs_quotes(name):
            text = f"Most engines need quotes for the name {name}."
            yield Finding("quoted_name", Severity.HINT, text, "name", column)


def _types(dataset: DatasetState, around: Surroundings) -> Iterator[Finding]:
    if dataset.select:
        return
    types = _types_above(dataset, around)
    for column in dataset.active_columns:
        if column.expression:
            continue
        for above in {types[key] for key in column.inputs if key in types}:
            if _loses(above, column.type, parsed=dataset.layer == "stage"):
                text = f"{column.name} is {column.type}, and its input is {above}: values may be lost or refused."
                yield Finding("type_loses_data", Severity.WARNING, text, "data_type", column.key)


def _loses(above: str, below: str, *, parsed: bool) -> bool:
    """Return True if a type does not take every value of the input's.

    Loads check texts that become other types, and in stage (``parsed``) all texts, as the source's contract says.
    """
    if above.startswith(STRING) and (parsed or not below.startswith(STRING)):
        return False
    return classify(above, below) in (TypeChange.NARROWER, TypeChange.INCOMPATIBLE)


def _types_above(dataset: DatasetState, around: Surroundings) -> dict[str, str]:
    types: dict[str, str] = {}
    for key in dataset.inputs:
        if key in around.sources:
            types |= around.sources[key].types
        elif key in around.datasets:
            types |= {column.key: column.type for column in around.datasets[key].active_columns}
    return types


def _columns(dataset: DatasetState, around: Surroundings) -> Iterator[Finding]:
    if dataset.select or not dataset.inputs:
        return
    known = _types_above(dataset, around)
    for column in dataset.active_columns:
        if not column.expression and column.role != TECHNICAL and not _is_fed(column, known):
            severity = Severity.WARNING if column.nullable else Severity.ERROR
            text = f"No input and no expression fills {column.name}: its rows have NULL."
            yield Finding("column_without_input", severity, text, "inputs", column.key)


def _is_fed(column: ColumnState, known: Mapping[str, str]) -> bool:
    return any(key in known for key in column.inputs)


def _readers(dataset: DatasetState, around: Surroundings) -> Iterator[Finding]:
    if dataset.layer in ("raw", "stage") and dataset.key not in around.read:
        yield Finding("orphan", Severity.HINT, "Nothing reads the dataset.", "active", fix=Fix.RETIRE)


def _cycles(dataset: DatasetState, around: Surroundings) -> Iterator[Finding]:
    if dataset.key in upstream_of(dataset.key, around.reads):
        yield Finding("cycle", Severity.ERROR, "The dataset reads itself over its inputs.", "inputs")


def upstream_of(key: str, reads: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Return the datasets that a dataset reads over any number of steps; in a cycle with itself."""
    seen: set[str] = set()
    pending = list(reads.get(key, ()))
    while pending:
        key = pending.pop()
        if key not in seen:
            seen.add(key)
            pending += reads.get(key, ())
    return seen


def _listed(names: list[str], shown: int = 3) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return f"{', '.join(names[:shown])}{more}"


Rule = Callable[[DatasetState, Surroundings], Iterator[Finding]]
RULES: tuple[Rule, ...] = (
    _policy,
    _key,
    _owner,
    _inputs,
    _layers,
    _names,
    _types,
    _columns,
    _readers,
    _cycles,
)

# Codes with their meaning, for filters and documentation.
CODES = {
    "policy": "History policy cannot work",
    EFFECTIVE_COLUMN_REQUIRED: "Column of effective times required",
    "no_key": "No business key",
    "no_owner": "No owner of personal data",
    "no_input": "No input",
    "retired_input": "Retired input",
    "layer_skipped": "Layer skipped",
    "layer_backwards": "Reads a higher layer",
    "long_name": "Name too long",
    "quoted_name": "Name needs quotes",
    "type_loses_data": "Type loses data",
    "column_without_input": "Column without input",
    "orphan": "Nothing reads it",
    "cycle": "Cycle",
    "outdated_approval": "Outdated approval",
    "schedules_overlap": "Overlapping schedules",
}
