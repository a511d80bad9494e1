"""Trials of models: permission, masking and audit of a SELECT that is tried before it is saved."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils import timezone
from sqlglot import exp

from architecture.domain.tables import TableSpec, current_table
from architecture.selectors.dataset_states import described_states
from architecture.services.environments import current_environment
from elevata.accounts.actors import acting_as
from elevata.core.errors import MetadataError
from loader.contract.manifest.reads import Masking
from loader.contract.refusals import Refusal
from loader.domain.models import model_query
from loader.domain.queries.masking import masked_names
from loader.domain.queries.select_statements import MOST_ROWS
from loader.models import ReadRequest
from loader.services.reads.read_permissions import masking_for, may_read_sensitive, must_read, record_sensitive_read
from metadata.domain import naming
from metadata.domain.models import DescribedModel
from metadata.domain.models.statement import parse_model
from metadata.domain.sensitivity import MASK
from metadata.domain.state import ATTRIBUTE, ColumnState, DatasetState
from metadata.models import TargetDataset
from metadata.selectors.classification import classification
from metadata.selectors.models import Readable
from metadata.services.models import describe_model

TRY_MODEL = "try_model"
# Names that a trial of a model without a dataset has in errors, and its runs in the SELECT.
_UNSAVED, _RUN_ID = ("new", "model"), "trial"
MOST_SAMPLED = 10_000_000


@dataclass(frozen=True)
class _Input:
    """Table that the SELECT reads, directly or through views, for one reader."""

    view: str
    table: TableSpec
    dataset: TargetDataset
    masking: Masking | None

    @property
    def masked(self) -> tuple[str, ...]:
        """Return names of the columns whose values are masked for the reader."""
        return () if self.masking is None else tuple(masked_names(self.table.columns, self.masking))


@dataclass(frozen=True)
class Trial:
    """Described SELECT with the permissions of its reader.

    ``masked`` are the columns of the result that are masked for the reader, ``hidden`` the masked columns that the
    SELECT uses, by table. ``has_star`` if it, or a view that it reads, takes all columns by ``*``. ``table`` is that
    of the model, None for a view and for a model that is not saved yet.
    """

    described: DescribedModel
    sql: str
    inputs: tuple[_Input, ...]
    masked: frozenset[str]
    hidden: Mapping[str, list[str]]
    has_star: bool = False
    key: tuple[str, ...] = ()
    table: TableSpec | None = None
    masking: Masking | None = None

    @property
    def sensitive(self) -> dict[str, list[str]]:
        """Return the sensitive columns that the SELECT uses unmasked, by table; with ``*`` it may use all of them."""
        columns_by_table = {}
        for item in self.inputs:
            names = classification(item.dataset).sensitive_names if item.masking is None else ()
            columns = [column.name for column in item.table.columns if column.name.lower() in names]
            used = [name for name in columns if self.has_star or _uses(self.sql, name)]
            if used:
                columns_by_table[item.table.qualified_name] = used
        return columns_by_table


def prepare_trial(text: str, *, dataset: TargetDataset | None, user: Any) -> Trial:
    """Return the trial of a SELECT for a user, in this environment.

    Raise ModelProblem with line and column, MetadataError ``not_permitted``, or Refusal UNKNOWN_INPUT. The user needs
    the permission to read data of every dataset that the SELECT reads, and of the tables beneath views.
    """
    if dataset is not None:
        must_read(user, dataset)
    described, readable = describe_model(text, where=str(dataset) if dataset is not None else "")
    states = {state.key: state for state in described_states(environment=current_environment())}
    known = next((state for state in states.values() if state.qualified_name == str(dataset)), None)
    model = _model(text, described, known, states)
    query = model_query(model, states, run_id=_RUN_ID, load_timestamp=timezone.now().isoformat())
    inputs = _inputs(query.views, readable, user)
    hidden = {item.table.qualified_name: [n for n in item.masked if _uses(query.sql, n)] for item in inputs}
    table = current_table(known) if known is not None and known.materialization == "table" else None
    masking = masking_for(user, dataset, table) if dataset is not None and table is not None else None
    own = masked_names(table.columns, masking) if table is not None and masking is not None else ()
    return Trial(
        described,
        query.sql,
        inputs,
        frozenset(_masked_results(described, readable, inputs, user, own)),
        {name: columns for name, columns in hidden.items() if columns},
        _has_star(model, states),
        tuple(column.name for column in known.business_key) if known is not None else (),
        table,
        masking,
    )


def _model(
    text: str, described: DescribedModel, known: DatasetState | None, states: Mapping[str, DatasetState]
) -> DatasetState:
    """Return the state that a model with this SELECT would have."""
    names = {name.lower() for name in described.reads}
    inputs = [
        state.key
        for state in states.values()
        if not names.isdisjoint((state.qualified_name.lower(), naming.history_name(state.qualified_name).lower()))
    ]
    columns = tuple(ColumnState(f"column {c.name}", c.name, c.type, role=ATTRIBUTE) for c in described.columns)
    schema, name = (known.schema, known.name) if known is not None else _UNSAVED
    key = known.key if known is not None else f"{schema}.{name}"
    return DatasetState(key, schema, "bizcore", name, columns, select=text, inputs=tuple(inputs))


def _inputs(
    views: tuple[tuple[str, TableSpec], ...], readable: Mapping[str, Readable], user: Any
) -> tuple[_Input, ...]:
    names = {table.qualified_name for _, table in views}
    schemas = {table.schema for _, table in views}
    rows = TargetDataset.objects.filter(schema__name__in=schemas).select_related("schema", "history_of__schema")
    by_name = {str(row): row for row in rows if str(row) in names}
    for row in (*(each.dataset for each in readable.values()), *by_name.values()):
        must_read(user, row)
    return tuple(
        _Input(view, table, row, masking_for(user, row, table))
        for view, table in views
        for row in (by_name[table.qualified_name],)
    )


def _has_star(model: DatasetState, states: Mapping[str, DatasetState]) -> bool:
    """Return True if the SELECT, or that of a view beneath it, has ``*`` in a list of results."""
    if model.select and any(node.is_star for node in parse_model(model.select).tree.find_all(exp.Select)):
        return True
    inputs = (states[key] for key in model.inputs if key in states)
    return any(_has_star(state, states) for state in inputs if state.materialization == "view")


def _uses(sql: str, name: str) -> bool:
    """Return True if the SQL has the name; a text or comment with it counts, too."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sql, re.IGNORECASE) is not None


def _masked_results(
    described: DescribedModel,
    readable: Mapping[str, Readable],
    inputs: tuple[_Input, ...],
    user: Any,
    own: Collection[str],
) -> set[str]:
    """Return the columns of the result that are computed from a masked one, or masked in the table, in lower case."""
    masked = {(item.table.qualified_name.lower(), name.lower()) for item in inputs for name in item.masked}
    for name, each in readable.items():
        if user is not None and not may_read_sensitive(user, each.dataset):
            masked |= {(name, column) for column in classification(each.dataset).sensitive_names}
    return {
        column.name.lower()
        for column in described.columns
        if column.name in own or not masked.isdisjoint((read.lower(), name.lower()) for read, name in column.inputs)
    }


def must_be_tried(
    text: str, *, dataset: TargetDataset | None, user: Any, compare: bool, sample: Mapping[str, Any]
) -> Trial:
    """Return the trial of a SELECT.

    Raise Refusal, with line and column for an error of the SELECT, if it cannot be tried. A comparison needs the
    model's table, all rows, and no masked column, because masked values would make rows differ.
    """
    try:
        trial = prepare_trial(text, dataset=dataset, user=user)
    except MetadataError as problem:
        code = "NOT_PERMITTED" if problem.code == "not_permitted" else problem.code.upper()
        raise Refusal(code, problem.one_line()) from problem
    if not compare:
        return trial
    if sample:
        raise Refusal("SAMPLE_COMPARED", "a sample cannot be compared: rows outside of it would count as gone")
    if trial.table is None:
        raise Refusal(
            "NO_TABLE",
            f"{dataset or 'a model that is not saved'} has no table to compare with",
            hint="Only models that are stored as tables can be compared. Try the model without a comparison.",
        )
    masked = [f"{name}.{column}" for name, columns in trial.hidden.items() for column in columns]
    masked += [name for name in trial.key if name.lower() in trial.masked]
    if masked:
        raise Refusal(
            "MASKED_COLUMN",
            f"the SELECT cannot be compared, since it uses columns that are masked for you: {', '.join(masked)}",
            hint="Ask an administrator for the role of a steward, or try the model without a comparison.",
        )
    return trial


def trial_arguments(
    text: str,
    *,
    limit: int,
    sample: Mapping[str, Any],
    compare: bool,
    check: bool = False,
    key: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the arguments of a trial. Raise Refusal BAD_SAMPLE for a sample that is no part of a table."""
    share, rows = sample.get("share"), sample.get("rows")
    if share is not None and not 0 < share <= 1:
        raise Refusal("BAD_SAMPLE", f"a share of rows is more than 0 and at most 1, not {share}")
    if rows is not None and not 1 <= rows <= MOST_SAMPLED:
        raise Refusal("BAD_SAMPLE", f"a sample has 1 to {MOST_SAMPLED:,} rows of each table, not {rows}")
    checked: dict[str, Any] = {"check": True} if check else {}
    checked |= {"declared_key": list(key)} if check and key is not None else {}
    limit = max(1, min(limit, MOST_ROWS))
    return {"text": text, "limit": limit, "sample": dict(sample), "compare": compare, **checked}


def trial_of(read: ReadRequest, user: Any) -> Trial:
    """Return the trial that a read requested, with the present permissions of a user."""
    arguments = read.arguments
    return must_be_tried(
        arguments["text"],
        dataset=read.dataset,
        user=user,
        compare=arguments["compare"],
        sample=arguments["sample"],
    )


def trial_answer(read: ReadRequest, answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer with a mask for every value of a masked column; ``hidden`` as in ``Trial``."""
    trial = trial_of(read, read.requested_by)
    masked = [name for name in answer["columns"] if name.lower() in trial.masked]
    places = {place for place, name in enumerate(answer["columns"]) if name in masked}

    def shown(rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
        return [[MASK if place in places else value for place, value in enumerate(row)] for row in rows]

    checked = [item | {"rows": shown(item["rows"])} for item in answer.get("checked", ())]
    checks = {"checked": checked} if "checked" in answer else {}
    return {**answer, **checks, "rows": shown(answer["rows"]), "masked": masked, "hidden": dict(trial.hidden)}


def record_trial(read: ReadRequest, answer: dict[str, Any]) -> None:
    """Write a change-log entry for each table whose sensitive columns a trial used or compared unmasked."""
    trial = trial_of(read, read.requested_by)
    keys = {item.table.qualified_name: str(item.dataset.key) for item in trial.inputs}
    sensitive = trial.sensitive
    if read.dataset is not None and "difference" in answer:
        names = classification(read.dataset).sensitive_names
        compared = [name for name in answer["columns"] if name.lower() in names and name not in answer["masked"]]
        keys[str(read.dataset)] = str(read.dataset.key)
        sensitive |= {str(read.dataset): compared} if compared else {}
    with acting_as(read.requested_by):
        for name, columns in sensitive.items():
            record_sensitive_read(
                name=name,
                key=keys[name],
                kind=TRY_MODEL,
                columns=columns,
                found_by=[],
                rows=len(answer.get("rows", ())),
                reason=read.reason,
            )


def must_still_see_trial(user: Any, read: ReadRequest) -> None:
    """Raise Refusal NOT_PERMITTED for an answer with values that its user may not read any more."""
    try:
        trial = prepare_trial(read.arguments["text"], dataset=read.dataset, user=user)
    except MetadataError as problem:
        raise Refusal("NOT_PERMITTED", problem.one_line(), hint="Try the model again.") from problem
    answer = read.answer or {}
    hidden = answer.get("hidden", {})
    shown = [f"{n}.{c}" for n, columns in trial.hidden.items() for c in columns if c not in hidden.get(n, ())]
    shown += sorted(trial.masked - {name.lower() for name in answer.get("masked", ())})
    if shown and answer:
        message = f"you may not read {', '.join(shown)} any more"
        raise Refusal("NOT_PERMITTED", message, hint="Try the model again: what you may not read is masked then.")
