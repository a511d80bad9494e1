from django.apps import AppConfig


class ArchitectureConfig(AppConfig):
    name = "architecture"

    def ready(self) -> None:
        from architecture.needed_entries import entries_needed
        from architecture.services.records import register
        from metadata.services import retention

        register()
        retention.keep(entries_needed)
