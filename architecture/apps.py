from django.apps import AppConfig


class ArchitectureConfig(AppConfig):
    name = "architecture"
