from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0027_trial_tokens_known_in_part")]

    operations = [
        migrations.AddField(model_name="attempt", name="queued_seconds", field=models.FloatField(default=0.0)),
    ]
