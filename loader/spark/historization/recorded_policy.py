"""History policy in the commit metadata of a history: written by each load and read by the next."""

from loader.domain.historization.hash_columns import hashed_notes, hashed_set
from loader.domain.historization.recorded_policy import Choices, eras_note, eras_with, form_note, refuse_other_form
from loader.domain.runs.manifest import RawcoreLoad
from loader.spark.tables.tables import RunCommit
from metadata.domain.history_policy import HistoryPolicy
from metadata.domain.types import parse


def column_keys(load: RawcoreLoad) -> dict[str, str]:
    """Return the stable keys of a dataset's columns by name."""
    return {column.name: column.key or column.name for column in load.table.columns}


def columns_hashed(load: RawcoreLoad) -> str:
    """Return the columns that this load's row hashes cover, in the form of the notes (see ``hash_columns``)."""
    types = {column.name: parse(column.type).name for column in load.leading.columns}
    return hashed_set((part.key, types[part.column]) for part in load.row_hash)


def kept_hashes(load: RawcoreLoad, signed: RunCommit | None) -> dict[str, str]:
    """Return the notes on hashed columns for a history whose older versions keep their row hashes."""
    return hashed_notes(signed.notes if signed else None, columns_hashed(load))


def refuse_policy_changed(load: RawcoreLoad, signed: RunCommit | None) -> None:
    """Raise Refusal if today's history policy would give the stored versions another form."""
    if load.history is None or signed is None:
        return
    refuse_other_form(
        name=load.name,
        policy=HistoryPolicy.from_dict(load.policy),
        keys=column_keys(load),
        noted=signed.notes,
        versions=signed.counts.get("versions"),
    )


def policy_notes(load: RawcoreLoad, signed: RunCommit | None) -> dict[str, str]:
    """Return the notes that record the history policy of versions dated by the load."""
    if load.history is None:
        return {}
    policy, keys = HistoryPolicy.from_dict(load.policy), column_keys(load)
    attributes = [(keys[column.name], column.name) for column in load.table.of_purpose("attribute")]
    noted = signed.notes if signed else {}
    return form_note(policy, keys) | eras_note(eras_with(noted, load.sequence, Choices.of(policy, attributes)))
