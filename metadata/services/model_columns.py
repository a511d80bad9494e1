"""Columns, inputs and lineage of a stored model, made equal to those of its SELECT."""

from collections.abc import Iterable, Mapping, Sequence

from elevata.core.errors import MetadataError
from metadata.domain import stable_keys
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.models import DescribedModel, ModelColumn
from metadata.domain.models.increment import Increment
from metadata.domain.types import parse
from metadata.models import ColumnInput, TargetColumn, TargetDataset
from metadata.selectors.models import Readable
from metadata.services.datasets.inputs import column_inputs, link_dataset
from metadata.services.rows.checks import check_target_column, refuse_if_paired, refuse_if_policy_names
from metadata.services.rows.row_changes import clear_the_way, remove, store, store_all
from metadata.services.rows.row_names import BY_GENERATION, former_names_of, free_key, set_retired

_ROLES = TargetColumn.Role


class Derivation:
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
            self.kept = {row.pk for each, row in matches.items() if row.active and self._has_added(each)}
        self._link(matches, left)
        for row in left:
            self._retire(row, is_key_given=business_key is not None)
        ordinals = self._ordinals(matches)
        rows = [
            self._column(each, matches.get(each), ordinal, places.get(each.name))
            for ordinal, each in zip(ordinals, self.described.columns, strict=True)
        ]
        self._link_columns(rows)
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
        """Return the described columns that a column is computed from; an added one has those that it is made of."""
        rows = (row for dataset, column in each.inputs for row in self.datasets[dataset.lower()].columns_behind(column))
        return list(dict.fromkeys(rows))

    def _expression(self, each: ModelColumn) -> str:
        """Return the expression of a column; empty if it is an input column unchanged that is described."""
        return "" if each.passes and not self._has_added(each) else each.expression

    def _has_added(self, each: ModelColumn) -> bool:
        return any(column.lower() in self.datasets[dataset.lower()].made_of for dataset, column in each.inputs)

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
        differences = self._difference(row, each)
        if each.name != row.name:
            self._follow_rename(row.name, each.name)
            values["former_names"] = former_names_of(row, each.name)
        if any(getattr(row, name) != value for name, value in values.items()):
            for name, value in values.items():
                setattr(row, name, value)
            check_target_column(row)
            store(row)
            self.changes += differences
        return row

    def _new_column(self, each: ModelColumn, values: Mapping[str, object]) -> TargetColumn:
        key = free_key(TargetColumn, lambda attempt: stable_keys.target_column_key(self.model.key, each.name, attempt))
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
