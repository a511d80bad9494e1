from django.apps import AppConfig


class ArchitectureConfig(AppConfig):
    name = "architecture"

    def ready(self) -> None:
        from architecture.needed_entries import entries_needed
        from architecture.services.executions.proof import unproven_row
        from architecture.services.policies.policies import differing_policy
        from metadata.services import chain, retention

        chain.compare(differing_policy)
        chain.compare(unproven_row)
        retention.keep(entries_needed)
