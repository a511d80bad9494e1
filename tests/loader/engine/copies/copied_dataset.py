"""Dataset with copies, on real tables."""

from dataclasses import dataclass, field
from typing import Any

from architecture.domain.tables import rawcore_table
from loader.contract.manifest.copies import CopyManifest, CopyTarget
from loader.contract.manifest.sources import DatabaseSpec
from loader.contract.run_states import COPY
from loader.dialects.copied_columns import copied_columns, shape_of
from metadata.domain.copies import JDBC, LEAVE_OUT, REPLACE
from tests.fixtures.source_database import server_place
from tests.loader.harness import stable
from tests.loader.histories import Kept


@dataclass
class Copied(Kept):
    """``Kept`` with copies; ``made`` has the worker's state of each copy by its key: table and shape."""

    made: dict[str, tuple[str, str]] = field(default_factory=dict)

    def target(
        self,
        kind: str = JDBC,
        *,
        table: str = "mart.item",
        mode: str = REPLACE,
        sensitive: tuple[str, ...] = (),
        treatment: str = LEAVE_OUT,
        location: str = "",
        system: str = "bi",
        environment: str = "dev",
        owners: tuple[str, ...] = (),
    ) -> CopyTarget:
        columns = copied_columns(rawcore_table(self.state), kind, sensitive=sensitive, treatment=treatment)
        key = stable("copy", system)
        former_table, former_shape = self.made.get(key, ("", ""))
        return CopyTarget(
            key,
            system,
            kind,
            table,
            mode,
            columns,
            shape_of(columns),
            owners=(self.state.qualified_name, *owners),
            environment=environment,
            database=DatabaseSpec(server_place()) if kind == JDBC else None,
            location=location,
            former_table=former_table,
            former_shape=former_shape,
        )

    def copy(self, *targets: CopyTarget, **options: Any) -> dict[str, Any]:
        """Make the copies; return the result of the first one."""
        manifest = CopyManifest(
            f"copy-{len(self.events)}",
            self.state.key,
            self.state.qualified_name,
            targets,
            **options,
        )
        self.status, self.ended = self.perform_run(COPY, manifest)
        results = self.answer["copies"]
        for target in targets:
            if not options.get("check") and results[target.key]["status"] != "failed":
                self.made[target.key] = (target.table, target.shape)
        return results[targets[0].key]
