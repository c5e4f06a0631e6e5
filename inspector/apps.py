from django.apps import AppConfig


class InspectorConfig(AppConfig):
    """The pages."""

    name = "inspector"
