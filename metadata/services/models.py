"""Models: columns, inputs and lineage derived from a SELECT, and models that follow a change of what they read."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial

from elevata.core.errors import MetadataError
from metadata.domain import naming
from metadata.domain.models import (
    DescribedModel,
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
from metadata.models import TargetDataset
from metadata.permissions import must_read_data
from metadata.selectors.models import Readable, models_reading, readable_datasets, readable_now, relations
from metadata.services.columns_around_changes import columns_around, renames
from metadata.services.datasets.inputs import datasets_read
from metadata.services.model_columns import Derivation
from metadata.services.rows.checks import check_dataset_columns, check_target_dataset, with_place
from metadata.services.rows.row_changes import store


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


def derive(model: TargetDataset, business_key: Sequence[str] | None = None, *, keeps_hashes: bool = False) -> list[str]:
    """Set columns, inputs and lineage of a stored model from its SELECT; return the changes in words.

    ``business_key`` are the names of the key's columns in order; None keeps the roles of the columns. With
    ``keeps_hashes``, columns with hashes or dates of versions keep their lineage, as nobody edited the SELECT.
    """
    described: list[tuple[DescribedModel, dict[str, Readable]]] = []
    with_place(model, lambda: described.append(describe_model(model.select, where=str(model), stored=model)))
    (described_model, datasets) = described[0]
    if model.materialization == TargetDataset.Materialization.VIEW and parse_model(model.select).placeholders:
        message = "a view has no load: {{ load_timestamp }} and {{ load_run_id }} are values of a table"
        raise MetadataError("invalid", message, "select", str(model))
    with following([model]) as changes:
        changes += Derivation(model, described_model, datasets, keeps_hashes=keeps_hashes).run(business_key)
        check_dataset_columns(model)
    return changes


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
    changed = [pk for pk in before if _content(before[pk]) != _content(after.get(pk))]
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


def _content(readable: Readable | None) -> object:
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
