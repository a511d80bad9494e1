"""History policy and hashed columns in commit metadata: written by each load and read by the next."""

from loader.contract.manifest.loads import RawcoreLoad
from loader.domain.historization.hash_coverage import hashed_notes, hashed_set
from loader.domain.historization.history import Choices, eras_note, eras_with, form_note, refuse_other_form
from loader.engine.compared_texts import types_by_name
from loader.engine.tables.run_commits import RunCommit
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.types import parse


def column_keys(load: RawcoreLoad) -> dict[str, str]:
    """Return the stable keys of a dataset's columns by name."""
    return {column.name: column.key or column.name for column in load.table.columns}


def columns_hashed(load: RawcoreLoad) -> str:
    """Return the columns that row hashes of this load cover, as recorded in commit metadata."""
    types = {column.name: parse(column.type).name for column in load.leading.columns}
    return hashed_set((part.key, types[part.column]) for part in load.row_hash)


def kept_hashes(load: RawcoreLoad, last_run: RunCommit | None) -> dict[str, str]:
    """Return the notes on hashed columns for a history whose older versions keep their row hashes."""
    return hashed_notes(last_run.notes if last_run else None, columns_hashed(load))


def refuse_policy_changed(load: RawcoreLoad, last_run: RunCommit | None) -> None:
    """Raise Refusal if the stored versions or events do not have the form of the present history policy."""
    if last_run is None or (load.history is None and load.event_log is None):
        return
    refuse_other_form(
        name=load.name,
        policy=HistoryPolicy.from_dict(load.policy),
        keys=column_keys(load),
        noted=last_run.notes,
        versions=last_run.counts.get("versions"),
        historized=load.history is not None,
    )


def policy_notes(load: RawcoreLoad, last_run: RunCommit | None) -> dict[str, str]:
    """Return the notes that record the history policy of this load; empty without a history."""
    if load.history is None:
        return {}
    policy, keys = HistoryPolicy.from_dict(load.policy), column_keys(load)
    attributes = [(keys[column.name], column.name) for column in load.table.of_purpose("attribute")]
    noted = last_run.notes if last_run else {}
    choices = Choices.of(policy, attributes, by_value(load).items())
    return form_note(policy, keys) | eras_note(eras_with(noted, load.sequence, choices))


def by_value(load: RawcoreLoad) -> dict[str, str]:
    """Return the types of the attributes that are compared by value, by stable key."""
    types, attributes = types_by_name(load.table), load.table.of_purpose("attribute")
    return {column.key or column.name: types[column.name] for column in attributes if column.name in types}
