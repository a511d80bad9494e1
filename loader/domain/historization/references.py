"""Feeds and sources that datasets read, foreign keys of a load, and rows of children that get ghost rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from architecture.domain.tables import TableSpec, history_table, rawcore_table
from loader.contract.manifest.checks import CheckSpec
from loader.contract.manifest.loads import ForeignKey, HashComponent, ReferringRows, StageInput
from loader.contract.manifest.sources import SourceSpec
from loader.contract.refusals import Refusal
from loader.domain.dependencies import is_loaded, referring, tables_read
from loader.domain.historization.compared_texts import BY_VALUE
from loader.domain.historization.stage import delivery_checked, entity_key_components, ranked_inputs, stage_inputs
from metadata.domain.history.history_policy import APPEND, CDC, EFFECTIVE, KEY_LIST, HistoryPolicy
from metadata.domain.quality.check_kinds import QUARANTINE as SEVERITY_QUARANTINE
from metadata.domain.quality.check_kinds import RELATIONSHIP
from metadata.domain.quality.unknown_parents import KEEP, QUARANTINE
from metadata.domain.sources.formats import READ_ONCE, reads_changes
from metadata.domain.state import DatasetState
from metadata.domain.types import parse

# Inputs whose deliveries add to those before.
_FED = (EFFECTIVE, CDC, APPEND)


def foreign_keys(dataset: DatasetState, states: Mapping[str, DatasetState]) -> tuple[ForeignKey, ...]:
    """Return each parent's entity key, hashed from the child's columns under the parent's stable keys."""
    names = {column.key: column.name for column in dataset.active_columns}
    keys = []
    for reference in dataset.references:
        gone = [child for child, _ in reference.pairs if child not in names]
        if gone or not reference.pairs:
            raise Refusal(
                "BROKEN_REFERENCE",
                f"{dataset.qualified_name}.{reference.column_name} refers by a column that is not there",
                hint="correct the reference's column pairs in the metadata",
            )
        parent = states.get(reference.parent)
        types = {column.key: column.type for column in (*dataset.active_columns, *(parent.columns if parent else ()))}
        components = tuple(
            HashComponent(key, names[child], _compared_as(types.get(child), types.get(key)))
            for child, key in reference.pairs
        )
        rule = reference.unknown_parent if parent is not None and is_loaded(parent) else KEEP
        rule = KEEP if rule == QUARANTINE else rule  # a check of the rows of stage (``parent_checks``)
        table = rawcore_table(parent) if parent is not None and rule != KEEP else None
        keys.append(ForeignKey(reference.column_name, components, rule, table, _leading_table(parent, components)))
    return tuple(keys)


def _compared_as(child: str | None, parent: str | None) -> str | None:
    """Return the parent's type, as which a child's value is compared; None if it makes no difference."""
    if child is None or parent is None:
        return None
    own, other = parse(child).name, parse(parent).name
    return other if own != other and not BY_VALUE.isdisjoint((own, other)) else None


def _leading_table(parent: DatasetState | None, components: tuple[HashComponent, ...]) -> TableSpec | None:
    """Return the table with the keys of a parent that has a uuid, a time or json in its business key."""
    keys = {part.key for part in components}
    if parent is None or not is_loaded(parent):
        return None
    if not any(column.key in keys and parse(column.type).name in BY_VALUE for column in parent.business_key):
        return None
    return history_table(parent) if parent.historize else rawcore_table(parent)


def parent_checks(dataset: DatasetState, states: Mapping[str, DatasetState]) -> tuple[CheckSpec, ...]:
    """Return a check of kind relationship for each reference whose rows with unknown parents are quarantined.

    Their rows have no active column missing, which ``foreign_keys`` refuses.
    """
    names, checks = {column.key: column.name for column in dataset.active_columns}, []
    for reference in dataset.references:
        parent = states.get(reference.parent)
        if reference.unknown_parent != QUARANTINE or parent is None or not is_loaded(parent):
            continue
        parent_names = {column.key: column.name for column in parent.business_key}
        arguments = {
            "columns": [names[child] for child, _ in reference.pairs],
            "dataset": parent.qualified_name,
            "other_columns": [parent_names[key] for _, key in reference.pairs],
        }
        name = f"{reference.column_name} is known"
        other = rawcore_table(parent)
        checks.append(CheckSpec(reference.key, name, RELATIONSHIP, SEVERITY_QUARANTINE, arguments, other))
    return tuple(checks)


def _is_read_once(source: SourceSpec) -> bool:
    """Return True unless each run asks for the rows again: all of them, or those from a watermark on."""
    read_once = source.format in READ_ONCE or reads_changes(source.format, source.options)
    return read_once and not source.intake.get("watermark")


@dataclass(frozen=True)
class Feeds:
    """Stable keys of the raw tables that are read in another way than as the latest delivery with one row per key.

    Of those ``read_once`` each file is read once and every run's rows stay; of those ``many_per_key`` a delivery has
    several rows of one key, which differ by their time; of those ``with_key_list`` the keys of all rows are read, too.
    ``shared_appends`` are the names of the readers, by raw table, if a feed has several and one of them appends its
    rows.
    """

    read_once: frozenset[str] = frozenset()
    many_per_key: frozenset[str] = frozenset()
    with_key_list: frozenset[str] = frozenset()
    shared_appends: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, states: Mapping[str, DatasetState], specs: Mapping[str, SourceSpec]) -> "Feeds":
        """Return the raw tables that datasets with dated or appended rows read.

        They are read once unless another reader, or one that closes absent keys, needs a complete delivery: the whole
        location is read then, and raw has the latest delivery. So it is for tables, which have neither files nor
        offsets, for an endpoint, which is asked anew by each run, and for files with a watermark. A model is no such
        reader: it reads the rows that the table has.
        """
        dated: set[str] = set()
        whole: set[str] = set()
        appended: set[str] = set()
        listed: set[str] = set()
        readers: dict[str, list[str]] = {}
        for state in states.values():
            if not is_loaded(state) or state.select:
                continue
            policy = HistoryPolicy.from_dict(state.history_policy)
            is_dated = policy.keeps_events(historize=state.historize)
            is_fed = (is_dated or policy.input == APPEND) and policy.input in _FED and not policy.closes_absent
            for table in tables_read(state, states):
                if table.layer != "raw":
                    continue
                readers.setdefault(table.key, []).append(state.qualified_name)
                if is_dated:
                    dated.add(table.key)
                if policy.input == APPEND:
                    appended.add(table.key)
                if policy.delete_detection == KEY_LIST:
                    listed.add(table.key)
                is_read_once = all(_is_read_once(specs[key]) for key in table.inputs if key in specs)
                if not (is_fed and is_read_once):
                    whole.add(table.key)
        shared = {key: tuple(sorted(readers[key])) for key in appended - whole if len(readers[key]) > 1}
        return cls(frozenset(readers.keys() - whole), frozenset(dated), frozenset(listed), shared)

    def refuse_shared_append(self, raw: DatasetState) -> None:
        """Raise Refusal SHARED_APPEND for a feed with an append among several readers.

        A file that one reader has not taken is read again for all of them; an append would add its rows twice.
        """
        if raw.key not in self.shared_appends:
            return
        raise Refusal(
            "SHARED_APPEND",
            f"{raw.qualified_name} is a feed of {', '.join(self.shared_appends[raw.key])}, and one of them appends its "
            "rows: files that another one did not take would be added twice",
            hint="Give the dataset with appended rows a source dataset of its own, with the same location.",
        )


def as_checked(source: SourceSpec, raw: str, feeds: Feeds) -> SourceSpec:
    """Return a source as deliveries for this raw table are checked. Raise Refusal BAD_OPTION."""
    if raw not in feeds.many_per_key:
        return source
    if "deduplicate" in source.options:
        raise Refusal(
            "BAD_OPTION",
            f"{source.name}: its option deduplicate does not go with rows that have a time of their own",
            hint="Remove it: of one key and time, rows that differ are always refused.",
        )
    return replace(source, one_row_per_key=False)


def sources_read(
    dataset: DatasetState,
    states: Mapping[str, DatasetState],
    specs: Mapping[str, SourceSpec],
    feeds: Feeds,
) -> dict[str, SourceSpec]:
    """Return the sources of the raw tables that a dataset reads, by the table's key."""
    return {
        table.key: as_checked(specs[key], table.key, feeds)
        for table in tables_read(dataset, states)
        for key in table.inputs
        if key in specs
    }


def fed_stage_inputs(
    dataset: DatasetState,
    states: Mapping[str, DatasetState],
    sources: Mapping[str, SourceSpec],
    feeds: Feeds,
) -> tuple[StageInput, ...]:
    """Return the inputs of a dataset's stage with what is known of their sources."""
    inputs = stage_inputs(dataset, states, {key: source.options for key, source in sources.items()})
    intakes = {key: bool(source.intake.get("watermark")) for key, source in sources.items()}
    names = {key: source.name for key, source in sources.items()}
    return tuple(
        replace(
            stage_input,
            feed=stage_input.table.key in feeds.read_once,
            incremental=intakes.get(stage_input.table.key, False),
        )
        for stage_input in ranked_inputs(dataset, inputs, names)
    )


def referring_rows(
    parent: DatasetState,
    states: Mapping[str, DatasetState],
    specs: Mapping[str, SourceSpec],
    feeds: Feeds,
) -> tuple[ReferringRows, ...]:
    """Return the rows of children whose unknown parents get ghost rows in ``parent``."""
    return tuple(
        _referring_rows(parent, replace(child, references=(reference,)), states, specs, feeds)
        for child, reference in referring(parent, states)
    )


def _referring_rows(
    parent: DatasetState,
    child: DatasetState,
    states: Mapping[str, DatasetState],
    specs: Mapping[str, SourceSpec],
    feeds: Feeds,
) -> ReferringRows:
    """Return the rows of a child with one reference."""
    sources = sources_read(child, states, specs, feeds)
    inputs = fed_stage_inputs(child, states, sources, feeds)
    (key,) = foreign_keys(child, states)
    names = {column.key: column.name for column in parent.active_columns}
    columns = tuple((names[part.key], part.column) for part in key.components)
    flag = HistoryPolicy.from_dict(child.history_policy).delete_flag
    needed = {column.name for column in child.business_key} | {name for _, name in columns} | {flag}
    return ReferringRows(
        name=child.qualified_name,
        table=rawcore_table(child),
        inputs=tuple(
            replace(stage_input, columns=tuple(column for column in stage_input.columns if column.name in needed))
            for stage_input in inputs
        ),
        entity_key=entity_key_components(child),
        foreign_key=key.components,
        columns=columns,
        policy=child.history_choices,
        delivery_checked=delivery_checked(child, inputs, states, sources),
    )
