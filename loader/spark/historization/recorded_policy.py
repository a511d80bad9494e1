"""The policy that a load writes into the history's commit metadata, and the one it reads there."""

from loader.domain.historization.hash_columns import hashed_notes, hashed_set
from loader.domain.historization.recorded_policy import Choices, eras_note, eras_with, form_note, refuse_other_form
from loader.domain.runs.manifest import RawcoreLoad
from loader.spark.tables.tables import RunCommit
from metadata.domain.history_policy import HistoryPolicy
from metadata.domain.types import parse


def column_keys(load: RawcoreLoad) -> dict[str, str]:
    """Stable keys of a dataset's own columns, by name."""
    return {column.name: column.key or column.name for column in load.table.columns}


def columns_hashed(load: RawcoreLoad) -> str:
    """The columns that this load's row hashes cover, as they are noted (see ``hash_columns``)."""
    types = {column.name: parse(column.type).name for column in load.leading.columns}
    return hashed_set((part.key, types[part.column]) for part in load.row_hash)


def kept_hashes(load: RawcoreLoad, signed: RunCommit | None) -> dict[str, str]:
    """Return the columns that a history's row hashes cover, for versions that keep theirs after this load."""
    return hashed_notes(signed.notes if signed else None, columns_hashed(load))


def refuse_policy_changed(load: RawcoreLoad, signed: RunCommit | None) -> None:
    """Refusal if the history's versions have another form than today's policy gives them."""
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
    """The policy that the versions of a history dated by the load were made under."""
    if load.history is None:
        return {}
    policy, keys = HistoryPolicy.from_dict(load.policy), column_keys(load)
    attributes = [(keys[column.name], column.name) for column in load.table.of_purpose("attribute")]
    noted = signed.notes if signed else {}
    return form_note(policy, keys) | eras_note(eras_with(noted, load.sequence, Choices.of(policy, attributes)))
