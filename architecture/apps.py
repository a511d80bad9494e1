from django.apps import AppConfig


class ArchitectureConfig(AppConfig):
    name = "architecture"

    def ready(self) -> None:
        from architecture.needed_entries import entries_needed
        from architecture.services.executions import proof, records
        from architecture.services.policies import policies
        from metadata.services import retention

        records.register()
        policies.register()
        proof.register()
        retention.keep(entries_needed)
