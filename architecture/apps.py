from django.apps import AppConfig


class ArchitectureConfig(AppConfig):
    name = "architecture"

    def ready(self) -> None:
        from architecture.needed_entries import entries_needed
        from architecture.services import policies, proof, records
        from metadata.services import retention

        records.register()
        policies.register()
        proof.register()
        retention.keep(entries_needed)
