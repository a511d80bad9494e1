"""Permission to read data, and the masking of sensitive columns."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.conf import settings
from django.utils.crypto import salted_hmac

from architecture.domain.steps.step import Step
from architecture.domain.tables import TableSpec, tables_of
from architecture.models import Environment, Execution
from architecture.selectors.dataset_states import described_states
from elevata.accounts.actors import acting_as
from elevata.accounts.permissions import may
from elevata.accounts.places import Place
from elevata.accounts.roles import Permission
from elevata.audit.services.change_log import record_change
from elevata.core.errors import MetadataError
from loader.contract.manifest.reads import Masking
from loader.contract.refusals import Refusal
from loader.domain.queries.answers import COMPARE, rows_of
from loader.domain.queries.comparison import ENVIRONMENTS, Comparison
from loader.domain.queries.masking import Sensitive, masking_of, may_hold_values, without_examples, without_values
from loader.models import ReadRequest
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.state import DatasetState
from metadata.models import SourceDataset, System, TargetDataset
from metadata.permissions import place_of_data, place_of_schemas
from metadata.selectors.classification import Classification, classification, classifications

_NAME = 200


@dataclass(frozen=True)
class SensitiveNames:
    """Stable keys of a dataset's sensitive columns; lower-case names of these and of the columns they are read from."""

    keys: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()


def may_read(user: Any, row: TargetDataset | SourceDataset | System, *environments: str) -> bool:
    """Return True if a user may read the data of a dataset, in these environments, by default in the present one."""
    return all(may(user, Permission.READ_DATA, on=place) for place in _places(row, environments))


def may_read_sensitive(user: Any, row: TargetDataset | SourceDataset | System, *environments: str) -> bool:
    """Return True if a user may read the sensitive values of a dataset, in environments as for ``may_read``."""
    return all(may(user, Permission.READ_SENSITIVE, on=place) for place in _places(row, environments))


def _places(row: TargetDataset | SourceDataset | System, environments: Iterable[str]) -> list[Callable[[], Place]]:
    names = tuple(environments) or (settings.ENVIRONMENT,)
    return [partial(_place_in, row, name) for name in names]


def _place_in(row: TargetDataset | SourceDataset | System, environment: str) -> Place:
    return replace(place_of_data(row), environment=environment)


def readable_error(user: Any, error: dict[str, Any] | None, name: str) -> dict[str, Any] | None:
    """Return the error of loading the dataset ``name`` (``schema.name``), reduced to what a user may read.

    Its examples need the permission to read data. Examples of a column that was classified since are removed for
    every user.
    """
    if not error:
        return None
    schema, _, own = name.rpartition(".")

    if not may(user, Permission.READ_DATA, on=lambda: place_of_schemas([schema], settings.ENVIRONMENT)):
        return without_examples(error, name)
    if not may_hold_values(error):
        return error
    dataset = TargetDataset.objects.filter(schema__name=schema, name=own).first()
    names = classification(dataset).sensitive_read if dataset is not None else ()
    return without_values(Refusal.from_json(error), names).as_json()


def must_read(user: Any, row: TargetDataset | SourceDataset | System) -> None:
    """Raise MetadataError ``not_permitted`` unless the user may read the data; the system (None) may."""
    if user is not None and not may_read(user, row):
        raise MetadataError("not_permitted", "reading its data needs the permission to read data", where=str(row))


def masking_for(user: Any, dataset: TargetDataset, table: TableSpec, *environments: str) -> Masking | None:
    """Return the masking for a user; None for the system and users without restrictions in these environments."""
    if user is None or may_read_sensitive(user, dataset, *environments):
        return None
    base = dataset.history_of or dataset
    policy = HistoryPolicy.from_dict(base.history_policy)
    return masking_of(table, sensitive_of(classification(base)), policy, _secret("keys"))


def entry_secret() -> str:
    """Return the secret of the tokens that name quarantined rows."""
    return _secret("entries")


def _secret(purpose: str) -> str:
    return salted_hmac("loader.masking", purpose, algorithm="sha256").hexdigest()


def sensitive_of(classification: Classification) -> Sensitive:
    """Return a classification in the type of the loader's rules."""
    present, others = classification.sensitive_present, classification.other_names
    return Sensitive(classification.sensitive, present, classification.known, others)


def sensitive_columns(states: Iterable[DatasetState]) -> dict[str, SensitiveNames]:
    """Return the sensitive columns of datasets, by the environment's stable keys."""
    described = {state.key: state for state in states}
    names = {state.qualified_name: key for key, state in described.items()}
    rows = TargetDataset.objects.filter(history_of=None).select_related("schema")
    pks = {
        row.pk: str(row.key) if str(row.key) in described else names[str(row)]
        for row in rows.only("key", "name", "schema__name")
        if str(row.key) in described or str(row) in names
    }
    return {
        pks[pk]: SensitiveNames(
            frozenset(column.key for column in described[pks[pk]].columns if sensitive_of(classified).has(column))
            | classified.sensitive,
            classified.sensitive_read,
        )
        for pk, classified in classifications(list(pks)).items()
    }


def hidden_names(state: DatasetState, names: SensitiveNames) -> frozenset[str]:
    """Return names in lower case of a dataset's sensitive columns and of the columns of its tables that hash them."""
    if not names.keys:
        return names.names
    sensitive, policy = _sensitive_of_state(state, names.keys), HistoryPolicy.from_dict(state.history_policy)
    hidden = set(names.names)
    for table in tables_of(state):
        hidden |= {column.name.lower() for column in table.columns}.difference(
            masking_of(table, sensitive, policy, "").shown_names
        )
    return frozenset(hidden)


def _sensitive_of_state(state: DatasetState, keys: frozenset[str]) -> Sensitive:
    """Return the sensitive columns of a state by the stable keys of its columns."""
    return Sensitive(keys, frozenset(), frozenset(column.key for column in state.columns))


def sensitive_keys(environment: Environment, datasets: Collection[str]) -> tuple[str, ...]:
    """Return stable keys of the columns of these datasets' tables that hold sensitive values, or hashes of them."""
    states = [state for state in described_states(environment=environment) if state.key in datasets]
    sensitive_by_dataset = sensitive_columns(states)
    keys = {key for names in sensitive_by_dataset.values() for key in names.keys}
    for state in states:
        if state.key in sensitive_by_dataset and sensitive_by_dataset[state.key].keys:
            sensitive = _sensitive_of_state(state, sensitive_by_dataset[state.key].keys)
            policy = HistoryPolicy.from_dict(state.history_policy)
            for table in tables_of(state):
                shown = masking_of(table, sensitive, policy, "").shown
                keys |= {column.key for column in table.columns} - set(shown)
    return tuple(sorted(keys))


def sensitive_in(execution: Execution, steps: Iterable[Step]) -> tuple[str, ...]:
    """Return stable keys of the sensitive columns that an execution changes."""
    return sensitive_keys(execution.environment, {step.table.dataset_key for step in steps})


def record_read(read: ReadRequest, answer: dict[str, Any]) -> None:
    """Write a change-log entry about sensitive values that an answer contains unmasked.

    It is written with the answer. It names the columns, the kind of read and the arguments used, and has no value.
    """
    if read.dataset is None or "columns" not in answer:
        return
    columns = unmasked_sensitive(read.dataset, answer)
    if columns:
        with acting_as(read.requested_by):
            record_sensitive_read(
                name=str(read.dataset),
                key=str(read.dataset.key),
                kind=read.kind,
                columns=columns,
                found_by=sorted(name for name, value in read.arguments.items() if value not in (None, "", False)),
                rows=rows_of(answer),
                reason=read.reason,
            )


def record_sensitive_read(
    *, name: str, key: str, kind: str, columns: list[str], found_by: list[str], rows: int, reason: str = ""
) -> None:
    """Write the change-log entry about one read of sensitive values by the current actor."""
    record_change(
        action="read",
        subject_kind="data",
        subject_key=name[:_NAME],
        subject_name=name,
        after={"dataset": key, "kind": kind, "columns": columns, "asked by": found_by, "rows": rows},
        reason=reason,
    )


def unmasked_sensitive(dataset: TargetDataset, answer: dict[str, Any]) -> list[str]:
    """Return the columns, sensitive by their present classification, whose values an answer contains."""
    names, masked = classification(dataset.history_of or dataset).sensitive_names, answer.get("masked", ())
    return [name for name in answer.get("columns", ()) if name.lower() in names and name not in masked]


def must_still_read(user: Any, read: ReadRequest) -> None:
    """Raise Refusal NOT_PERMITTED for an answer that its user may not read any more.

    During the day that answers are stored, a role may be revoked or a column classified.
    """
    hint = "Try again: values that you may not read are then masked."
    if read.dataset is None:
        return
    environments = environments_of(read)
    if not may_read(user, read.dataset, *environments):
        raise Refusal("NOT_PERMITTED", f"you may not read the data of {read.dataset} any more")
    if may_read_sensitive(user, read.dataset, *environments):
        return
    columns = unmasked_sensitive(read.dataset, read.answer or {})
    if columns:
        raise Refusal("NOT_PERMITTED", f"you may not read {', '.join(columns)} any more", hint=hint)


def environments_of(read: ReadRequest) -> tuple[str, ...]:
    """Return the names of the environments whose data a read has: a comparison may have those of two."""
    comparison = Comparison.from_arguments(read.arguments) if read.kind == COMPARE else None
    other = (comparison.base,) if comparison is not None and comparison.by == ENVIRONMENTS else ()
    return (settings.ENVIRONMENT, *other)


def other_environments(user: Any, dataset: TargetDataset) -> list[str]:
    """Return the names of the other environments in which a user may read the data of a dataset."""
    names = Environment.objects.exclude(name=settings.ENVIRONMENT).order_by("name").values_list("name", flat=True)
    return [name for name in names if user is None or may_read(user, dataset, name)]
