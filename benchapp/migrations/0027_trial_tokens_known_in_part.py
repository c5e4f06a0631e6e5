from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models import OuterRef, Q, Subquery

NAMES = ("input_at_least", "output_at_least")


def take_from_attempts(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    """The bounds of the attempts that count, for trials from before trials had them."""
    counting = apps.get_model("benchapp", "Attempt").objects.filter(counts=True)
    known = counting.filter(Q(input_at_least__isnull=False) | Q(output_at_least__isnull=False))
    mine = counting.filter(trial=OuterRef("pk"))
    trials = apps.get_model("benchapp", "Trial").objects.filter(pk__in=known.values("trial"))
    trials.update(**{name: Subquery(mine.values(name)[:1]) for name in NAMES})


class Migration(migrations.Migration):
    dependencies = [
        ("benchapp", "0026_suite_account"),
    ]

    operations = [
        *(migrations.AddField("trial", name, models.PositiveBigIntegerField(null=True)) for name in NAMES),
        migrations.RunPython(take_from_attempts, migrations.RunPython.noop),
    ]
