from django.apps import AppConfig


class ListsConfig(AppConfig):
    name = "elevata.lists"

    def ready(self) -> None:
        from elevata.lists import search
        from elevata.web.search import KINDS

        KINDS.add(*search.KINDS)
