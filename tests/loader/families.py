"""Two datasets for tests of references: a child whose rows refer to those of a parent, loaded by the same run."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from loader.contract.manifest.loads import LoadManifest, RawcoreLoad, ReferringRows
from loader.domain.historization.references import foreign_keys, parent_checks
from metadata.domain.quality.unknown_parents import GHOST
from metadata.domain.state import DatasetState, ReferenceState
from tests.loader.harness import Dataset, stable

# The rows of a delivery by dataset; one that is left out is not loaded.
Rows = list[dict] | None


@dataclass
class Child(Dataset):
    """Dataset whose column ``plant`` refers to the key of another one, by the rule ``rule``.

    A delete flag is delivered only.
    """

    parent: DatasetState | None = None
    rule: str = "keep"

    @property
    def state(self) -> DatasetState:
        pairs = ((stable(self.name, "plant"), self.parent.business_key[0].key),)
        reference = ReferenceState(stable(self.name, "ref"), "plant_key", self.parent.key, pairs, self.rule)
        state = super().state
        columns = tuple(column for column in state.columns if column.name != self.policy.get("delete_flag"))
        return replace(state, references=(reference,), columns=columns)


@dataclass
class Family:
    """Orders and the plants that they refer to."""

    spark: object
    folder: Path
    rule: str = "keep"
    parents: dict = field(default_factory=dict)
    children: dict = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.plants = Dataset(self.spark, self.folder, "plant", format="parquet", **self.parents)
        columns, parent = {"id": "integer", "plant": "bigint"}, self.plants.state
        fields = {"columns": columns, "format": "parquet", "parent": parent, "rule": self.rule, **self.children}
        self.orders = Child(self.spark, self.folder, "order", **fields)

    def manifest(self, plants: Rows, orders: Rows, *, at: str, run_id: str = "", **options) -> LoadManifest:
        """Deliver rows and return the manifest of a run that loads them."""
        made = []
        for dataset, rows in ((self.plants, plants), (self.orders, orders)):
            dataset.prepare()
            if rows is not None:
                dataset.sequence += 1
                run = run_id or f"run-{at}"
                made.append(dataset.manifest(dataset.deliver(rows), at=at, run_id=run, **options))
        raw = tuple(load for manifest in made for load in manifest.raw)
        rawcore = [load for manifest in made for load in manifest.rawcore]
        loaded = {load.dataset for load in (*raw, *rawcore)}
        return replace(made[0], raw=raw, rawcore=tuple(self._related(load, loaded) for load in rawcore))

    def _related(self, load: RawcoreLoad, loaded: set[str]) -> RawcoreLoad:
        """Return the load with its part in the reference, as ``loader.services.loads.manifests`` describes it."""
        plants, orders = self.plants.state, self.orders.state
        (key,) = foreign_keys(orders, {plants.key: plants})
        if load.dataset == orders.key:
            waits = tuple({*load.depends_on, plants.key} & loaded)
            checks = parent_checks(orders, {plants.key: plants})
            return replace(load, foreign_keys=(key,), quality=checks, depends_on=waits)
        if self.rule != GHOST:
            return load
        child = self.orders.manifest(self.folder / "none", at="", run_id="").rawcore[0]
        rows = ReferringRows(
            name=child.name,
            table=child.table,
            inputs=child.inputs,
            entity_key=child.entity_key,
            foreign_key=key.components,
            columns=((plants.business_key[0].name, "plant"),),
            policy=child.policy,
        )
        waits = tuple({*load.depends_on, *child.depends_on} & loaded)
        return replace(load, children=(rows,), depends_on=waits)

    def run(self, manifest: LoadManifest) -> tuple[dict, dict]:
        """Run an attempt; return the finishing events of plants and orders, empty for a table that was not loaded."""
        _, events = self.plants.attempt(manifest)
        ends = {event["dataset"]: event for event in events if event["event"] == "dataset_finished"}
        return ends.get(self.plants.state.key, {}), ends.get(self.orders.state.key, {})

    def load(self, plants: Rows, orders: Rows, *, at: str, **options) -> tuple[dict, dict]:
        return self.run(self.manifest(plants, orders, at=at, **options))

    def keys(self) -> dict[int, bool]:
        """Return for each order of rawcore True if it has a foreign key."""
        table = self.orders.table(self.orders.rawcore_spec).frame()
        return {row.id: row.plant_key is not None for row in table.select("id", "plant_key").collect()}

    def joined(self) -> dict[int, str | None]:
        """Return the value of each order's plant; an order without a known plant is left out."""
        orders, plants = (dataset.table(dataset.rawcore_spec).frame() for dataset in (self.orders, self.plants))
        rows = orders.join(plants, orders.plant_key == plants.rc_t_plant_key).select(orders.id, plants.v).collect()
        return {row[0]: row[1] for row in rows}
