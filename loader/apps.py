from django.apps import AppConfig


class LoaderConfig(AppConfig):
    name = "loader"
    verbose_name = "Loading"

    def ready(self) -> None:
        from architecture.services import observing, writers
        from loader.management.looking import look
        from loader.services.governedrecords import register
        from loader.services.writers import runs_that_wrote

        register()
        observing.provide(look)
        writers.provide(runs_that_wrote)
