"""Tests of the order of models: each after those that it reads."""

from collections import Counter

from metadata.models import TargetDataset
from metadata.services import models


class Edges(dict[int, list[int]]):
    """Datasets read, by primary key, with the number of look-ups of each."""

    def __init__(self, edges: dict[int, list[int]]) -> None:
        super().__init__(edges)
        self.lookups: Counter[int] = Counter()

    def get(self, key: int, default=()) -> list[int]:
        self.lookups[key] += 1
        return super().get(key, default)


def ordered(monkeypatch, pks: list[int], edges: dict[int, list[int]]) -> list[int]:
    monkeypatch.setattr(models, "datasets_read", lambda: edges)
    return [model.pk for model in models.in_order([TargetDataset(pk=pk) for pk in pks])]


def test_model_is_ordered_after_models_it_reads_indirectly(monkeypatch) -> None:
    assert ordered(monkeypatch, [1, 3], {1: [2], 2: [3]}) == [3, 1]


def test_models_that_read_each_other_have_an_order(monkeypatch) -> None:
    assert sorted(ordered(monkeypatch, [1, 2], {1: [2], 2: [1]})) == [1, 2]


def test_ordering_visits_a_dataset_once_regardless_of_its_readers(monkeypatch) -> None:
    edges = Edges({pk: [pk + 2 - pk % 2, pk + 3 - pk % 2] for pk in range(16)})
    ordered(monkeypatch, list(range(18)), edges)
    assert set(edges.lookups.values()) == {1}
