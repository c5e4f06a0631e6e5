from django.apps import AppConfig


class BenchappConfig(AppConfig):
    """The record: models, checks and commands."""

    name = "benchapp"
    verbose_name = "Skillglass record"

    def ready(self) -> None:
        from benchapp.people import accounts  # noqa: F401  (registers its check)
