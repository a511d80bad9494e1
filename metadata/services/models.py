"""Models: columns, inputs and lineage derived from a SELECT, and models that follow a change of what they read."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial

from elevata.core.errors import MetadataError
from metadata.domain import naming
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.models import (
    DescribedModel,
    ModelColumn,
    check_meaning,
    describe_select,
    reads_of,
    rename_dataset_in_select,
    rename_in_select,
    renamed_column,
)
from metadata.domain.models.description import ReadColumn
from metadata.domain.models.increment import Increment
from metadata.domain.models.statement import parse_model
from metadata.domain.types import parse
from metadata.models import ColumnInput, TargetColumn, TargetDataset
from metadata.permissions import must_read_data
from metadata.selectors.models import Readable, models_reading, readable_datasets, readable_now, relations
from metadata.services.datasets.inputs import column_inputs, datasets_read, link_dataset
from metadata.services.meanings import columns_around, renames
from metadata.services.rows.checks import (
    check_dataset_columns,
    check_target_column,
    check_target_dataset,
    refuse_if_paired,
    refuse_if_policy_names,
    with_place,
)
from metadata.services.rows.row_changes import (
    BY_GENERATION,
    clear_the_way,
    former_names_of,
    free_key,
    remove,
    set_retired,
    store,
    store_all,
)

_ROLES = TargetColumn.Role


def describe_model(
    text: str, *, where: str = "", stored: TargetDataset | None = None
) -> tuple[DescribedModel, dict[str, Readable]]:
    """Return what follows from a SELECT, and the datasets that it reads by name in lower case. Raise ModelProblem.

    ``where`` is the model's own name, which the SELECT must not read. Raise MetadataError ``not_permitted`` unless the
    actor may read the data of all datasets except the inputs of the ``stored`` model: who edits its SELECT must be
    permitted to read those too (``check_read_permissions``), but not who changes one of them.
    """
    names = reads_of(text)
    if where.lower() in map(str.lower, names):
        raise MetadataError("cycle", f"reads itself: {where} → {where}", "select", where)
    datasets = readable_datasets(text)
    must_read_data(_read_anew([(name, datasets[name.lower()].dataset) for name in names], stored), where=where)
    return describe_select(text, relations(datasets)), datasets


def _read_anew(
    read: Sequence[tuple[str, TargetDataset]], stored: TargetDataset | None
) -> Iterator[tuple[str, TargetDataset]]:
    inputs = set(stored.inputs.values_list("upstream_id", flat=True)) if stored else ()
    yield from (each for each in read if each[1].pk not in inputs)


def derive(
    model: TargetDataset, business_key: Sequence[str] | None = None, *, keeps_hashes: bool = False
) -> list[str]:
    """Set columns, inputs and lineage of a stored model from its SELECT; return the changes in words.

    ``business_key`` are the names of the key's columns in order; None keeps the roles of the columns. With
    ``keeps_hashes``, columns with hashes keep their lineage, as nobody edited the SELECT.
    """
    described: list[tuple[DescribedModel, dict[str, Readable]]] = []
    with_place(model, lambda: described.append(describe_model(model.select, where=str(model), stored=model)))
    (found, datasets) = described[0]
    if model.materialization == TargetDataset.Materialization.VIEW and parse_model(model.select).placeholders:
        message = "a view has no load: {{ load_timestamp }} and {{ load_run_id }} are values of a table"
        raise MetadataError("invalid", message, "select", str(model))
    with following([model]) as changes:
        changes += _Derivation(model, found, datasets, keeps_hashes=keeps_hashes).run(business_key)
        check_dataset_columns(model)
    return changes


class _Derivation:
    """Comparison of a model's columns with those of its SELECT, and the writes that make them equal."""

    def __init__(
        self, model: TargetDataset, described: DescribedModel, datasets: Mapping[str, Readable], *, keeps_hashes: bool
    ) -> None:
        self.model, self.described, self.datasets, self.keeps_hashes = model, described, datasets, keeps_hashes
        self.known = list(model.columns.prefetch_related("inputs__upstream_column").order_by("ordinal", "id"))
        for column in self.known:
            column.dataset = model
        self.changes: list[str] = []
        # Columns that keep their stored lineage.
        self.kept: set[int] = set()

    def run(self, business_key: Sequence[str] | None) -> list[str]:
        matches = self._matches()
        places = self._key_places(matches, business_key)
        matched = {row.pk for row in matches.values()}
        left = [row for row in self.known if row.active and row.pk not in matched]
        clear_the_way(
            [(row, each.name, places.get(each.name)) for each in self.described.columns if (row := matches.get(each))]
        )
        if self.keeps_hashes:
            self.kept = {row.pk for each, row in matches.items() if row.active and self._has_hash(each)}
        self._link(matches, left)
        for row in left:
            self._retire(row, is_key_given=business_key is not None)
        ordinals = self._ordinals(matches)
        rows = [
            self._column(each, matches.get(each), ordinal, places.get(each.name))
            for ordinal, each in zip(ordinals, self.described.columns, strict=True)
        ]
        self._link_columns(rows)
        self.model = TargetDataset.objects.select_related("schema").get(pk=self.model.pk)
        return self.changes

    def _matches(self) -> dict[ModelColumn, TargetColumn]:
        """Return the stored column of each derived one: of its name, or of its expression under another name."""
        by_name = {row.name.lower(): row for row in self.known}
        matches = {each: by_name[each.name.lower()] for each in self.described.columns if each.name.lower() in by_name}
        taken = {row.pk for row in matches.values()}
        free = [row for row in self.known if row.active and row.pk not in taken]
        for each in self.described.columns:
            if each not in matches:
                same = [row for row in free if self._is_same(row, each)]
                if len(same) == 1:
                    matches[each] = same[0]
                    free.remove(same[0])
        return matches

    def _is_same(self, row: TargetColumn, each: ModelColumn) -> bool:
        stored = [item.upstream_column for item in row.inputs.all()]
        is_same = row.expression == self._expression(each) and stored == self._inputs(each)
        return is_same and bool(stored or each.expression)

    def _inputs(self, each: ModelColumn) -> list[TargetColumn]:
        """Return the described columns that a column is computed from; a hash has those that it is made of."""
        rows = (row for dataset, column in each.inputs for row in self.datasets[dataset.lower()].columns_behind(column))
        return list(dict.fromkeys(rows))

    def _expression(self, each: ModelColumn) -> str:
        """Return the expression of a column; empty if it is an input column unchanged, and no hash of others."""
        return "" if each.passes and not self._has_hash(each) else each.expression

    def _has_hash(self, each: ModelColumn) -> bool:
        return any(column.lower() in self.datasets[dataset.lower()].hash_inputs for dataset, column in each.inputs)

    def _key_places(
        self, matches: Mapping[ModelColumn, TargetColumn], business_key: Sequence[str] | None
    ) -> dict[str, int]:
        """Return the position of columns in the business key, by name."""
        if business_key is None:
            kept = sorted(
                (row.key_ordinal, each.name) for each, row in matches.items() if row.key_ordinal and row.active
            )
            business_key = [name for _, name in kept]
        names = {each.name.lower(): each.name for each in self.described.columns}
        missing = [name for name in business_key if name.lower() not in names]
        if missing:
            message = f"{missing[0]} is no column of the SELECT"
            raise MetadataError("unknown_column", message, "business_key", str(self.model))
        return {names[name.lower()]: place for place, name in enumerate(business_key, start=1)}

    def _ordinals(self, matches: Mapping[ModelColumn, TargetColumn]) -> list[int]:
        """Return the positions of the columns: the stored ones if these are in order, and new ones after them."""
        stored = [matches[each].ordinal for each in self.described.columns if each in matches]
        fresh = [each not in matches for each in self.described.columns]
        if stored == sorted(set(stored)) and fresh == sorted(fresh):
            last = max((row.ordinal for row in self.known), default=0)
            return stored + [last + place for place in range(1, fresh.count(True) + 1)]
        return list(range(1, len(fresh) + 1))

    def _link(self, matches: Mapping[ModelColumn, TargetColumn], left: Iterable[TargetColumn]) -> None:
        """Set the inputs of the model; inputs of columns that change are removed before, and added afterwards."""
        changed = [row.pk for row in left]
        for each, row in matches.items():
            if row.pk not in self.kept and [item.upstream_column for item in row.inputs.all()] != self._inputs(each):
                changed.append(row.pk)
        remove(ColumnInput.objects.filter(column__in=changed))
        wanted = [self.datasets[name.lower()].dataset for name in self.described.reads]
        link_dataset(self.model, wanted)

    def _link_columns(self, rows: Sequence[TargetColumn]) -> None:
        inputs = list(self.model.inputs.select_related("upstream"))
        stored = set(ColumnInput.objects.filter(column__in=rows).values_list("column_id", flat=True))
        new: list[ColumnInput] = []
        for each, row in zip(self.described.columns, rows, strict=True):
            if row.pk not in stored and row.pk not in self.kept:
                new += column_inputs(row, self._inputs(each), inputs)
        store_all(new)

    def _retire(self, row: TargetColumn, *, is_key_given: bool) -> None:
        refuse_if_paired(row)
        refuse_if_policy_names(row)
        if row.key_ordinal is not None and not is_key_given:
            message = f"{row.name} is in the business key; name the columns of the new key"
            raise MetadataError("in_use", message, "business_key", str(self.model))
        set_retired(row, by=BY_GENERATION)
        self.changes.append(f"{row} is retired")

    def _column(self, each: ModelColumn, row: TargetColumn | None, ordinal: int, place: int | None) -> TargetColumn:
        values = {
            "name": each.name,
            "type": parse(each.type),
            "nullable": each.nullable,
            "ordinal": ordinal,
            "role": _ROLES.BUSINESS_KEY if place else _ROLES.ATTRIBUTE,
            "key_ordinal": place,
            "expression": self._expression(each),
            "active": True,
            "retired_at": None,
            "retired_by": "",
        }
        if row is None:
            return self._new_column(each, values)
        if row.pk in self.kept:
            values["expression"] = row.expression
        told = self._difference(row, each)
        if each.name != row.name:
            self._follow_rename(row.name, each.name)
            values["former_names"] = former_names_of(row, each.name)
        if any(getattr(row, name) != value for name, value in values.items()):
            for name, value in values.items():
                setattr(row, name, value)
            check_target_column(row)
            store(row)
            self.changes += told
        return row

    def _new_column(self, each: ModelColumn, values: Mapping[str, object]) -> TargetColumn:
        key = free_key(TargetColumn, lambda attempt: naming.target_column_key(self.model.key, each.name, attempt))
        row = TargetColumn(dataset=self.model, key=key)
        inputs = self._inputs(each)
        if inputs and not values["expression"]:
            row.description, row.pii, row.sensitivity = inputs[0].description, inputs[0].pii, inputs[0].sensitivity
        for name, value in values.items():
            setattr(row, name, value)
        check_target_column(row)
        store(row)
        self.changes.append(f"{row} is added")
        return row

    def _difference(self, row: TargetColumn, each: ModelColumn) -> list[str]:
        if not row.active:
            return [f"{row} is restored"]
        if row.name != each.name:
            return [f"{row} is renamed to {each.name}"]
        return [f"{row} becomes {each.type} (was {row.type})"] if str(row.type) != each.type else []

    def _follow_rename(self, old: str, new: str) -> None:
        """Rename a column in policy and increment of the model."""
        model = self.model
        policy = HistoryPolicy.from_dict(model.history_policy).renamed({old: new}).to_dict()
        increment = Increment.from_dict(model.increment).renamed({old: new}).to_dict()
        if (policy, increment) != (model.history_policy, model.increment):
            model.history_policy, model.increment = policy, increment
            store(model)


# Models that follow a change of the datasets that they read.


# Names of models that an import derives itself, in lower case.
_left: ContextVar[frozenset[str]] = ContextVar("left_to_import", default=frozenset())


@contextmanager
def following(datasets: Iterable[TargetDataset], without: Collection[str] = ()) -> Iterator[list[str]]:
    """Let the models that read these datasets follow a change of their names or columns.

    Names are rewritten in the SELECT of each model, then its columns are derived anew. Yield the list of changes in
    words. Raise MetadataError ``in_use`` with all models that cannot follow. Models named in ``without`` (in lower
    case) do not follow: the caller derives them.
    """
    changes: list[str] = []
    rows = [row for row in datasets if row.pk is not None]
    before = _readables(rows) if rows and models_reading(rows).exists() else {}
    with leaving(without):
        left = _left.get()
        yield changes
    if before:
        changes += _follow(before, _readables(rows), left)


@contextmanager
def leaving(names: Collection[str]) -> Iterator[None]:
    """Let models of these names, in lower case, follow no change: the caller derives them."""
    token = _left.set(_left.get() | frozenset(names))
    try:
        yield
    finally:
        _left.reset(token)


def _readables(rows: Iterable[TargetDataset]) -> dict[int, Readable]:
    """Return datasets with their histories as models read them, by primary key."""
    return {each.dataset.pk: each for each in readable_now(rows)}


def _follow(before: Mapping[int, Readable], after: Mapping[int, Readable], without: Collection[str]) -> list[str]:
    changed = [pk for pk in before if _told(before[pk]) != _told(after.get(pk))]
    if not changed:
        return []
    readers = models_reading([before[pk].dataset for pk in changed]).select_for_update(of=("self",))
    models = in_order([model for model in readers if str(model).lower() not in without])
    problems: list[str] = []
    changes: list[str] = []
    texts = {model.pk: model.select for model in models}
    for model in models:
        _try(model, problems, partial(_rename, model, before, after))
    for model in models:
        if not problems:
            # The one before may have changed it.
            stored = TargetDataset.objects.select_related("schema").get(pk=model.pk)
            keeps = stored.select == texts[model.pk]
            work = partial(derive, stored, keeps_hashes=keeps)
            _try(stored, problems, partial(_add_changes, changes, work))
    if problems:
        names = ", ".join(before[pk].name for pk in changed)
        raise MetadataError("in_use", f"models read it and cannot follow: {'; '.join(problems)}", "", names)
    return changes


def _told(readable: Readable | None) -> object:
    return readable and (readable.name, readable.active, readable.columns, readable.versions)


def _try(model: TargetDataset, problems: list[str], work: Callable[[], object]) -> None:
    try:
        work()
    except MetadataError as problem:
        problems.append(str(problem) if str(model) in str(problem) else f"{model}: {problem.message}")


def _rename(model: TargetDataset, before: Mapping[int, Readable], after: Mapping[int, Readable]) -> None:
    """Rewrite the new names of datasets and columns in the SELECT of a model.

    Raise ModelProblem if the SELECT, with the new names, means something else over the columns of now.
    """
    text = model.select
    for pk, was in before.items():
        now = after.get(pk)
        if now is not None and was.name != now.name:
            text = rename_dataset_in_select(text, was.name, now.name)
    for pk, was in before.items():
        now = after.get(pk)
        if now is not None and now.name.lower() in map(str.lower, reads_of(text)):
            text = _rename_columns(text, was, now)
    increment = _followed_increment(model, before, after)
    if (text, increment) != (model.select, model.increment):
        former, model.select, model.increment = model.select, text, increment
        check_target_dataset(model)
        store(model, followed={"select": former})
    check_meaning(text, *columns_around(text, before, after))


def _followed_increment(model: TargetDataset, before: Mapping[int, Readable], after: Mapping[int, Readable]) -> dict:
    """Return the increment of a model with the new names of its input and of the input's columns."""
    increment = Increment.from_dict(model.increment)
    for pk, was in before.items():
        now = after.get(pk)
        if now is not None and increment.input.lower() == was.name.lower():
            names = dict(renames(was, now))
            columns = {names.get(name, name): own for name, own in increment.columns.items()}
            return replace(increment, input=now.name, columns=columns).to_dict()
    return model.increment


def _add_changes(changes: list[str], work: Callable[[], Iterable[str]]) -> None:
    changes.extend(work())


def _rename_columns(text: str, was: Readable, now: Readable) -> str:
    changed = renames(was, now)
    if not changed:
        return text
    # The SELECT has the old names until each is rewritten.
    datasets: Mapping[str, Sequence[ReadColumn]]
    datasets = relations(readable_datasets(text) | {now.name.lower(): replace(was, name=now.name)})
    for old, new in changed:
        text = rename_in_select(text, now.name, old, new, datasets)
        datasets = renamed_column(datasets, now.name, old, new)
    return text


def in_order(models: Sequence[TargetDataset], *, by_text: bool = False) -> list[TargetDataset]:
    """Return models after those that they read; ``by_text`` if their inputs are not stored yet."""
    edges, by_pk = datasets_read(), {model.pk: model for model in models}
    if by_text:
        pks = {name.lower(): each.pk for each in models for name in (str(each), naming.history_name(str(each)))}
        for model in models:
            names: list[str] = []
            with_place(model, lambda model=model, names=names: names.extend(reads_of(model.select)))
            edges[model.pk] = [pks[name.lower()] for name in names if name.lower() in pks]
    ordered: list[TargetDataset] = []
    visited: set[int] = set()

    def visit(pk: int) -> None:
        if pk in visited:
            return
        visited.add(pk)
        for read in edges.get(pk, ()):
            visit(read)
        if pk in by_pk:
            ordered.append(by_pk[pk])

    for pk in by_pk:
        visit(pk)
    return ordered
