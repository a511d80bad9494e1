"""Contract type for import-linter that lists the allowed imports of a room (package), as in the design document.

The table is in docs/understand/design.md. import-linter's own contracts list forbidden imports, so they miss new
ones. By this contract a room may import only the listed rooms of the project.
"""

import sys

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class RoomContract(Contract):
    """Contract: the modules of a room import only that room and the rooms it may import."""

    type_name = "room"

    room = fields.StringField()
    may_import = fields.ListField(subfield=fields.StringField(), required=False, default=[])
    never = fields.ListField(subfield=fields.StringField(), required=False, default=[])
    only = fields.BooleanField(required=False, default=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        self._ours = {module.split(".")[0] for module in self.session_options["root_packages"]}
        if not any(room_of(module) == self.room for module in graph.modules):
            return ContractCheck(kept=False, metadata={"breaches": [f"there is no room {self.room}"]})
        breaches = [
            f"{module} imports {imported}"
            for module in sorted(graph.modules)
            if room_of(module) == self.room
            for imported in sorted(graph.find_modules_directly_imported_by(module))
            if not self._allowed(imported)
        ]
        return ContractCheck(kept=not breaches, metadata={"breaches": breaches})

    def _allowed(self, imported: str) -> bool:
        top = imported.split(".")[0]
        if any(inside(imported, name) for name in self.never):
            return False
        if top in self._ours:
            return room_of(imported) in {self.room, *self.may_import}
        return not self.only or top in sys.stdlib_module_names or top in self.may_import

    def render_broken_contract(self, check: ContractCheck) -> None:
        for breach in check.metadata["breaches"]:
            output.print_error(f"{self.room}: {breach}")


# Rooms inside another room; each other module belongs to the room of its top-level package.
INNER = {
    "metadata.domain": "metadata.domain",
    "architecture.domain": "architecture.domain",
    "loader.contract": "loader.contract",
    "loader.domain": "loader.domain",
    "loader.dialects": "loader.dialects",
    "loader.engine.arrow": "loader.engine.arrow",
    "loader.readers.kafka": "loader.readers.kafka",
    "loader.readers.records": "loader.readers.records",
    "loader.readers.rest": "loader.readers.rest",
    "loader.engine": "loader.engine",
    "elevata.bootstrap": "elevata.bootstrap",
    "elevata.core.database": "elevata.core.django",
    "elevata.core.lookups": "elevata.core.django",
    "elevata.core": "elevata.core",
    "elevata.jobs.states": "elevata.jobs.states",
    "elevata.accounts.roles": "elevata.rules",
    "elevata.accounts.places": "elevata.rules",
    "elevata.audit.hash_chain": "elevata.rules",
    "elevata.audit.export_format": "elevata.rules",
    "elevata.audit.signatures": "elevata.rules",
    "elevata.audit.row_digests": "elevata.rules",
    "elevata.comments.mentions": "elevata.rules",
}


def room_of(module: str) -> str:
    """Return the room that a module of the project belongs to."""
    for package, room in INNER.items():
        if inside(module, package):
            return room
    return module.split(".")[0]


def inside(module: str, package: str) -> bool:
    """Return True if the module is the package or below it."""
    return module == package or module.startswith(f"{package}.")
