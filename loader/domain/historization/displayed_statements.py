"""Display SQL: statements that describe the work of each layer of a dataset.

That of stage is the real query. The runner's engine writes raw, rawcore and history in one commit each; their
statements describe this in SQL, by the dataset's history policy, and are never executed.
"""

from collections.abc import Mapping

from architecture.domain.tables import TableSpec, history_table, model_table, raw_table, rawcore_table
from architecture.domain.views import lines, qualified, query_of_model, select, typed, view_sql
from loader.contract.manifest.loads import HashComponent, StageColumn
from loader.contract.manifest.sources import SourceSpec
from loader.domain.dependencies import is_plain_model, referring
from loader.domain.historization.history import CHANGED, DELETED, NEW
from loader.domain.historization.stage import entity_key_components, row_hash_components, stage_inputs
from metadata.domain.history.history_columns import open_end
from metadata.domain.history.history_policy import (
    APPEND,
    BATCH_FILES,
    IGNORE,
    KEY_LIST,
    LOAD_TIME,
    NONE,
    TOMBSTONE,
    WINDOW,
    HistoryPolicy,
)
from metadata.domain.models.increment import KINDS, Increment
from metadata.domain.quality.unknown_parents import NULL, QUARANTINE, REFUSE
from metadata.domain.sources.raw_keeping import LATEST, mode_of
from metadata.domain.sql import quote_identifier as quoted
from metadata.domain.state import DatasetState, ReferenceState
from metadata.domain.types import TIMESTAMP

LIVE = "live"
_RUN, _AT = "{{ load_run_id }}", "{{ load_timestamp }}"
_VALUES = {"load_run_id": _RUN, "load_timestamp": _AT}


def layer_sql(dataset: DatasetState, by_key: Mapping[str, DatasetState], source: SourceSpec | None = None) -> str:
    """Return the statement of a dataset's layer; empty if there is none."""
    if dataset.materialization == "view":
        return view_sql(dataset, by_key)
    if dataset.layer == "raw":
        return raw_sql(dataset, source) if source else ""
    if is_plain_model(dataset):
        return model_sql(dataset, by_key)
    return rawcore_sql(dataset, by_key)


def model_sql(dataset: DatasetState, by_key: Mapping[str, DatasetState]) -> str:
    """Return the statement that writes the rows of a model into its table; a comment describes its increment."""
    increment = Increment.from_dict(dataset.increment)
    comment = f"-- {KINDS[increment.by]}; all are computed if the SELECT changed\n" if increment.by else ""
    query = query_of_model(dataset, by_key, values=_VALUES).sql
    return f"{comment}INSERT OVERWRITE {_name(model_table(dataset))}\n{query}"


def raw_sql(dataset: DatasetState, source: SourceSpec) -> str:
    """Return the statement that writes a delivery into its raw table."""
    table = raw_table(dataset)
    names = {column.key: column.name for column in source.columns}
    selected = [
        _alias(quoted(next((names[key] for key in column.inputs if key in names), column.name)), column.name)
        for column in dataset.active_columns
    ]
    selected += [
        f"{_RUN} AS {quoted(table.column('run_id').name)}",
        f"current_timestamp() AS {quoted(table.column('loaded_at').name)}",
        f"_metadata.file_path AS {quoted(table.column('source_file').name)}",
        f"1 + monotonically_increasing_id() AS {quoted(table.column('source_row').name)}",
        f"to_date({_AT}) AS {quoted(table.column('load_day').name)}",
    ]
    return (
        "-- the whole delivery is checked against the source's contract before anything is written;\n"
        "-- of a feed each file is read once, and its rows are added to those of the runs before;\n"
        "-- the path of a file is the one below the source's location, and rows are counted in each file\n"
        f"INSERT {'OVERWRITE' if mode_of(dataset.load_policy) == LATEST else 'INTO'} {_name(table)}\n"
        f"SELECT\n  {lines(selected)}\n"
        f"FROM {source.format}.{quoted(source.location)}"
    )


# What loads do about deleted keys besides the statements, by the policy's delete detection.
_DETECTION = {
    NONE: "",
    KEY_LIST: "-- open keys that the source's key list lacks are closed in the same commit\n",
    WINDOW: "-- open keys in the read window that are absent are closed in the same commit\n",
}


def rawcore_sql(dataset: DatasetState, by_key: Mapping[str, DatasetState]) -> str:
    """Return the MERGE into rawcore: of stage if the load dates the rows, else of the open versions.

    Appended rows are inserted.
    """
    policy = HistoryPolicy.from_dict(dataset.history_policy)
    table = rawcore_table(dataset)
    if policy.input == APPEND:
        return _append_sql(table, hashed_stage_sql(dataset, by_key))
    if policy.keeps_events(historize=False) and not dataset.historize:
        return _dated_upsert_sql(dataset, by_key, policy)
    key, row_hash = quoted(table.column("entity_key").name), quoted(table.column("row_hash").name)
    own = [column.name for column in table.of_purpose("business_key", "attribute", "foreign_key")]
    stamp = [f"{quoted('load_run_id')} = {_RUN}", f"{quoted('loaded_at')} = current_timestamp()"]
    updates = [f"{quoted(name)} = s.{quoted(name)}" for name in own] + [f"{row_hash} = s.{row_hash}", *stamp]
    names = [table.column("entity_key").name, *own, table.column("row_hash").name]
    inserted = ", ".join(map(quoted, [*names, "load_run_id", "loaded_at"]))
    values = ", ".join([*(f"s.{quoted(name)}" for name in names), _RUN, "current_timestamp()"])
    insert = f"INSERT ({inserted})\n  VALUES ({values})"
    absent = "\nWHEN NOT MATCHED BY SOURCE THEN DELETE" if policy.closes_absent else ""
    if dataset.historize and policy.time != LOAD_TIME:
        return (
            f"-- after the history, for the keys of this run: what holds of them now\nMERGE INTO {_name(table)} AS r\n"
            f"USING (\n{_indent(_open_versions_sql(dataset, by_key))}\n) AS s\nON r.{key} = s.`__key`\n"
            f"WHEN MATCHED AND s.{key} IS NULL THEN DELETE\n"
            f"WHEN MATCHED THEN UPDATE SET\n  {lines(updates)}\n"
            f"WHEN NOT MATCHED AND s.{key} IS NOT NULL THEN {insert}{absent}"
        )
    stage, flagged, unless = hashed_stage_sql(dataset, by_key), "", ""
    if policy.delete_flag and policy.deletes == IGNORE:
        stage = _without_flagged(stage, policy.delete_flag)
    elif policy.delete_flag:
        flag = f"s.{quoted(policy.delete_flag)}"
        flagged, unless = f"WHEN MATCHED AND {flag} THEN DELETE\n", f" AND NOT coalesce({flag}, false)"
    differ = [f"NOT r.{column} <=> s.{column}" for column in _untracked_columns(dataset, policy)]
    changed = " OR ".join([f"r.{row_hash} <> s.{row_hash}", *differ])
    return (
        f"{_DETECTION[policy.delete_detection]}MERGE INTO {_name(table)} AS r\n"
        f"USING (\n{_indent(stage)}\n) AS s\n"
        f"ON r.{key} = s.{key}\n{flagged}WHEN MATCHED AND ({changed}) THEN UPDATE SET\n  {lines(updates)}\n"
        f"WHEN NOT MATCHED{unless} THEN {insert}{absent}"
    )


def _dated_upsert_sql(dataset: DatasetState, by_key: Mapping[str, DatasetState], policy: HistoryPolicy) -> str:
    """Return the stage query of an upsert of dated rows; comments describe the fold, which no statement expresses."""
    late = {"split": "counts at its own time", "refuse": "refuses the run", "ignore": "is left out and counted"}
    parts = [
        f"each row holds from its {policy.time_column!r} until its key's next one, in whatever order rows arrive",
        f"a row older than the newest of its key {late[policy.late]}",
        *_deletes(policy),
        f"{_name(rawcore_table(dataset))} has what holds of each key in the end",
    ]
    return "".join(f"-- {line}\n" for line in parts) + hashed_stage_sql(dataset, by_key)


def _append_sql(table: TableSpec, stage: str) -> str:
    return (
        f"-- each run adds its rows once\nINSERT INTO {_name(table)} BY NAME\n"
        f"SELECT s.*, {_RUN} AS {quoted('load_run_id')}, current_timestamp() AS {quoted('loaded_at')}\n"
        f"FROM (\n{_indent(stage)}\n) AS s"
    )


def _open_versions_sql(dataset: DatasetState, by_key: Mapping[str, DatasetState]) -> str:
    """Return a query of the keys of this run's rows, each with its open version, if any."""
    history = history_table(dataset)
    key, segment = (quoted(history.column(purpose).name) for purpose in ("entity_key", "segment"))
    return (
        f"SELECT b.{key} AS `__key`, h.*\nFROM (\n  SELECT DISTINCT {key}\n  FROM (\n"
        f"{_indent(_indent(hashed_stage_sql(dataset, by_key)))}\n  )\n) AS b\n"
        f"LEFT JOIN {_name(history)} AS h ON h.{key} = b.{key} AND h.{segment} = 'open'"
    )


def _untracked_columns(dataset: DatasetState, policy: HistoryPolicy) -> list[str]:
    """Return the quoted names of the untracked columns, which are updated in place."""
    if policy.track is None or policy.untracked == "keep":
        return []
    tracked = (*policy.uncompared, *policy.track)
    return [quoted(column.name) for column in dataset.attributes if column.name not in tracked]


def history_sql(dataset: DatasetState, by_key: Mapping[str, DatasetState]) -> str:
    """Return the statements that close and open versions; in a run they are one commit.

    Rows with a time of their own are inserted between existing versions, which no statement expresses; comments
    describe it.
    """
    policy = HistoryPolicy.from_dict(dataset.history_policy)
    if policy.input == BATCH_FILES:
        return (
            "-- manage.py load_history_batch applies the files of a batch in this order: earliest_start, upsert,\n"
            "-- update, delete. The versions of their keys are written anew, in one commit. The history afterwards:\n"
            f"SELECT * FROM {_name(history_table(dataset))}"
        )
    if policy.time != LOAD_TIME:
        return _dated_history_sql(dataset, by_key, policy)
    return _run_history_sql(dataset, by_key, policy)


_LATE = {
    "split": "opens a version there, and ends the one it falls into",
    "refuse": "refuses the run",
    "ignore": "is left out and counted",
}


def _dated_history_sql(dataset: DatasetState, by_key: Mapping[str, DatasetState], policy: HistoryPolicy) -> str:
    parts = [
        f"each row holds from its {policy.time_column!r} until its key's next one; a row that changes nothing opens "
        "no version",
        f"a row older than the newest version {_LATE[policy.late]}",
        *_deletes(policy),
    ]
    comments = "".join(f"-- {line}\n" for line in parts)
    return (
        f"{comments}-- the versions of these rows' keys are written anew, in one commit of "
        f"{history_table(dataset).qualified_name}\n{hashed_stage_sql(dataset, by_key)}"
    )


def _deletes(policy: HistoryPolicy) -> list[str]:
    """Return sentences about the deletes of dated rows."""
    parts = []
    if policy.op:
        parts.append(f"{policy.op!r} = 'D' ends a key's version")
    if policy.delete_flag:
        parts.append(f"a row with {policy.delete_flag!r} ends its key's version")
    if policy.deletes == IGNORE:
        parts.append("deletes are ignored")
    elif policy.deletes == TOMBSTONE:
        parts.append("a delete leaves a tombstone: a version of that state, which is no row of rawcore")
    if policy.closes_absent:
        parts.append("keys that the run lacks end at the run's time")
    return parts


def _run_history_sql(dataset: DatasetState, by_key: Mapping[str, DatasetState], policy: HistoryPolicy) -> str:
    table = history_table(dataset)
    name = {column.purpose: quoted(column.name) for column in table.columns}
    key, row_hash, segment = (name[purpose] for purpose in ("entity_key", "row_hash", "segment"))
    delivered = hashed_stage_sql(dataset, by_key)
    live = _without_flagged(delivered, policy.delete_flag) if policy.delete_flag else delivered
    stage = live if policy.deletes == IGNORE else delivered
    tombstones = policy.deletes == TOMBSTONE
    stored = f"h.{segment} IN ('open', 'deleted')" if tombstones else f"h.{segment} = 'open'"
    clauses = []
    if tombstones:
        clauses.append(f"h.{segment} = 'deleted' THEN UPDATE SET\n  {_end_sql(name, policy, DELETED, 'closed')}")
    ends = _end_sql(name, policy, LIVE, "closed") if tombstones else _end_sql(name, policy, DELETED, "deleted")
    if policy.delete_flag and policy.deletes != IGNORE:
        clauses.insert(0, f"s.{quoted(policy.delete_flag)} AND h.{segment} = 'open' THEN UPDATE SET\n  {ends}")
    state = LIVE if tombstones else CHANGED
    clauses.append(f"h.{row_hash} <> s.{row_hash} THEN UPDATE SET\n  {_end_sql(name, policy, state, 'closed')}")
    if untracked := _untracked_columns(dataset, policy):
        differ = " OR ".join(f"NOT h.{column} <=> s.{column}" for column in untracked)
        updates = ", ".join(f"{column} = s.{column}" for column in untracked)
        clauses.append(f"({differ}) THEN UPDATE SET\n  {updates}")
    merge = (
        f"MERGE INTO {_name(table)} AS h\nUSING (\n{_indent(stage)}\n) AS s\nON h.{key} = s.{key} AND {stored}\n"
        + "\n".join(f"WHEN MATCHED AND {clause}" for clause in clauses)
    )
    if policy.closes_absent:
        merge += f"\nWHEN NOT MATCHED BY SOURCE AND h.{segment} = 'open' THEN UPDATE SET\n  {ends}"
    new, changed = policy.label(NEW), policy.label(CHANGED)
    opened = f"'{policy.label(LIVE)}'" if tombstones else f"CASE WHEN h.{key} IS NULL THEN '{new}' ELSE '{changed}' END"
    sentences = [
        merge,
        f"INSERT INTO {_name(table)} BY NAME\nSELECT\n  {lines(_version(table, policy, 's', opened, 'open'))}\n"
        f"FROM (\n{_indent(live)}\n) AS s\n"
        f"LEFT JOIN {_name(table)} AS h ON h.{key} = s.{key} AND h.{segment} = 'open'\n"
        f"WHERE h.{key} IS NULL OR h.{row_hash} <> s.{row_hash}",
    ]
    if tombstones and (policy.closes_absent or policy.delete_flag or policy.delete_detection != NONE):
        tombstone = lines(_version(table, policy, "h", f"'{policy.label(DELETED)}'", "deleted"))
        sentences.append(
            f"INSERT INTO {_name(table)} BY NAME\nSELECT\n  {tombstone}\nFROM {_name(table)} AS h\n"
            f"LEFT ANTI JOIN (\n{_indent(live)}\n) AS s ON h.{key} = s.{key}\nWHERE h.{name['closed_by']} = {_RUN}"
        )
    message = "-- one atomic commit; of the history only open versions are read\n" + _DETECTION[policy.delete_detection]
    return message + ";\n\n".join(sentences)


def _without_flagged(stage: str, flag: str) -> str:
    return f"SELECT *\nFROM (\n{_indent(stage)}\n)\nWHERE NOT coalesce({quoted(flag)}, false)"


def _end_sql(name: Mapping[str, str], policy: HistoryPolicy, state: str, segment: str) -> str:
    """Return the assignments that end a version."""
    values = {
        "ended_at": _AT,
        "closed_by": _RUN,
        "closed_at": "current_timestamp()",
        "active": "false",
        "state": f"'{policy.label(state)}'",
        "segment": f"'{segment}'",
    }
    return ", ".join(f"{name[purpose]} = {value}" for purpose, value in values.items() if purpose in name)


def _version(table: TableSpec, policy: HistoryPolicy, row: str, state: str, segment: str) -> list[str]:
    """Return the columns of a new version; ``row`` is the alias of its values."""
    name = {column.purpose: quoted(column.name) for column in table.columns}
    described = [quoted(column.name) for column in table.of_purpose("business_key", "attribute", "foreign_key")]
    end = open_end(policy, TIMESTAMP)
    values = {
        "updated_at": _AT,
        "started_at": _AT,
        "ended_at": "NULL" if end is None else f"TIMESTAMP '{end}'",
        "active": "true" if segment == "open" else "false",
        "state": state,
        "run_id": _RUN,
        "loaded_at": "current_timestamp()",
        "segment": f"'{segment}'",
    }
    return [
        f"sha256({row}.{name['entity_key']}, {_AT}) AS {name['history_key']}",
        f"{row}.{name['entity_key']}",
        *(f"{row}.{column}" for column in described),
        f"{row}.{name['row_hash']}",
        *(f"{value} AS {name[purpose]}" for purpose, value in values.items() if purpose in name),
    ]


def hashed_stage_sql(dataset: DatasetState, by_key: Mapping[str, DatasetState]) -> str:
    """Return the stage query of a rawcore dataset: typed columns, keys and row hash."""
    table = rawcore_table(dataset)
    hashes = [(entity_key_components(dataset), column.name, "") for column in table.of_purpose("entity_key")]
    names = {column.key: column.name for column in dataset.active_columns}
    for reference in dataset.references:
        components = tuple(HashComponent(parent, names[child]) for child, parent in reference.pairs if child in names)
        hashes.append((components, reference.column_name, _known_keys(reference, by_key)))
    hashes.append((row_hash_components(dataset), table.column("row_hash").name, ""))
    selects = []
    for columns, table_sql, condition in _stage_parts(dataset, by_key):
        keys = []
        for parts, name, known in hashes:
            value = _hash(parts, columns)
            if known:
                value = f"CASE WHEN {value} IN ({known}) THEN {value} END"
            keys.append(f"{value} AS {quoted(name)}")
        selects.append(select([*map(_typed_column, columns), *keys], table_sql, condition))
    return _rule_comments(dataset, by_key) + "\nUNION ALL\n".join(selects)


def _stage_parts(
    dataset: DatasetState, by_key: Mapping[str, DatasetState]
) -> list[tuple[tuple[StageColumn, ...], str, str]]:
    """Return columns, source and condition of each part of a dataset's stage; a model is one part."""
    if not dataset.select:
        inputs = stage_inputs(dataset, by_key)
        return [(item.columns, _name(item.table), item.filter or "") for item in inputs]
    described = (*dataset.business_key, *dataset.attributes)
    columns = tuple(StageColumn(column.name, column.type, quoted(column.name)) for column in described)
    return [(columns, f"(\n{_indent(query_of_model(dataset, by_key, values=_VALUES).sql)}\n)", "")]


def _known_keys(reference: ReferenceState, by_key: Mapping[str, DatasetState]) -> str:
    """Return the query of the parent's keys for a foreign key that is NULL for unknown parents, else an empty text."""
    if reference.unknown_parent != NULL or reference.parent not in by_key:
        return ""
    parent = rawcore_table(by_key[reference.parent])
    return f"SELECT {quoted(parent.column('entity_key').name)} FROM {_name(parent)}"


def _rule_comments(dataset: DatasetState, by_key: Mapping[str, DatasetState]) -> str:
    """Return a comment line for each rule about keys that is no part of the query."""
    outcomes = {REFUSE: "refused", QUARANTINE: "a row is quarantined"}
    comments = [
        f"-- {outcomes[item.unknown_parent]} if {by_key[item.parent].qualified_name} does not have a {item.column_name}"
        for item in dataset.references
        if item.unknown_parent in outcomes and item.parent in by_key
    ]
    comments += [
        f"-- with a ghost row for each {reference.column_name} of {child.qualified_name} that has no row"
        for child, reference in referring(dataset, by_key)
    ]
    if rank := HistoryPolicy.from_dict(dataset.history_policy).rank:
        comments.append(f"-- of rows of one key, the best source's is used: {', '.join(rank)}")
    # A line end in the name of a source would end the comment.
    return "".join(f"{' '.join(comment.split())}\n" for comment in comments)


def _hash(parts: tuple[HashComponent, ...], columns: tuple[StageColumn, ...]) -> str:
    names = {column.name for column in columns}
    return f"sha256({', '.join(quoted(part.column) for part in parts if part.column in names)})"


def _typed_column(column: StageColumn) -> str:
    return typed(column.expression, column.type, column.name)


def _alias(sql: str, name: str) -> str:
    return sql if sql == quoted(name) else f"{sql} AS {quoted(name)}"


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))


def _name(table: TableSpec) -> str:
    return qualified(table.qualified_name)
