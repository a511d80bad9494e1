from django.apps import AppConfig


class LoaderConfig(AppConfig):
    name = "loader"
    verbose_name = "Loading"

    def ready(self) -> None:
        from architecture.services import observing, writers
        from loader.management.looking import look
        from loader.services.governedrecords import register
        from loader.services.wakeup import wake_for_deliveries
        from loader.services.writers import runs_that_wrote
        from metadata.services.notices import provide_wake

        register()
        observing.provide(look)
        writers.provide(runs_that_wrote)
        provide_wake(wake_for_deliveries)
