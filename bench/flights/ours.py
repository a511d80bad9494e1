"""Engine of the product: loads of the example's sources, and of its models."""

from pathlib import Path

from pyspark.sql import SparkSession

from architecture.domain.tables import current_table
from architecture.domain.views import VIEW, view_sql
from bench.engines.engine import Engine
from bench.engines.ours import Ours
from bench.flights.digests import digest_of_model
from bench.flights.example import Flights
from bench.history.dataset import create_tables, run_load
from bench.history.folders import link_copy
from bench.processes.meter import metered
from loader.contract.manifest.loads import LoadManifest
from loader.domain.models import model_load
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sql import quote_identifier


class OurFlights(Engine):
    """Engine with the example's warehouse, which has the tables that both engines read."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__(spark, folder)
        self.warehouse = str(self.tables)
        self.example = Flights()

    def deliver(self, *, landing: str, at: str, load: int) -> None:
        """Load every source from the folder ``landing``, and save the tables under the number of the load."""
        sources = self.example.sources
        if load == 1:
            create_tables(self.spark, self.warehouse, [source.dataset for source in sources])
        raw = tuple(
            source.dataset.raw_load(f"{landing}/{source.file}", "csv", options=dict(source.options))
            for source in sources
        )
        rawcore = tuple(source.dataset.rawcore_load(load) for source in sources)
        manifest = LoadManifest(f"sources-{load}", at, 1, raw, rawcore, small_rows=Ours.small_rows)
        run_load(self.spark, self.warehouse, manifest)
        self.save(label=str(load))

    def start(self) -> None:
        """Restore the tables of the first load, without a model."""
        for model in self.example.models:
            kind = "VIEW" if model.materialization == VIEW else "TABLE"
            self.spark.sql(f"DROP {kind} IF EXISTS {self._name(model)}")
        self.restore(label="1")

    def arrive(self) -> None:
        """Put the tables of the second load in place of those that the models read."""
        for table in self.example.inputs:
            link_copy(self.saved / "2" / table.key, self.tables / table.key)
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    def build(self, *, load: int, at: str) -> dict:
        """Build all models: in the first load with their tables and views, as a load run that finds none."""
        with metered(self.spark) as measured:
            if load == 1:
                self._create()
            finished = run_load(self.spark, self.warehouse, self._manifest(load, at))
        loads = {
            self.example.states[key].qualified_name: {"counts": event["counts"], "seconds": event["seconds"]}
            for key, event in finished.items()
        }
        return {"seconds": measured.seconds, "cpu_seconds": measured.cpu_seconds, "loads": loads}

    def digests(self) -> dict[str, dict[str, str]]:
        return {model.name: digest_of_model(self.spark.table(self._name(model))) for model in self.example.models}

    def locations(self) -> dict[str, str]:
        """Return the folders of the tables that models read, by name."""
        return {table.name: DeltaTable(self.spark, self.warehouse, table.key).location for table in self.example.inputs}

    def _create(self) -> None:
        models = self.example.models
        views = [view_sql(model, self.example.states) for model in models if model.materialization == VIEW]
        create_tables(self.spark, self.warehouse, (), models, views)

    def _manifest(self, load: int, at: str) -> LoadManifest:
        states, run_id = self.example.states, f"models-{load}"
        models = [model for model in self.example.models if model.materialization != VIEW]
        keys = {model.key for model in models}
        loads = (
            model_load(
                model,
                states,
                run_id=run_id,
                load_timestamp=at,
                sequence=load,
                depends_on=tuple(key for key in model.inputs if key in keys),
            )
            for model in models
        )
        return LoadManifest(run_id, at, 1, (), (), models=tuple(loads))

    def _name(self, model) -> str:
        return ".".join(map(quote_identifier, (model.schema, current_table(model).name)))
