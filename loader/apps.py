from django.apps import AppConfig


class LoaderConfig(AppConfig):
    name = "loader"
    verbose_name = "Loading"

    def ready(self) -> None:
        from architecture.services.observing import provide
        from loader.management.looking import look

        provide(look)
