from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("benchapp", "0024_lineage")]

    operations = [
        migrations.AddField(model_name="attempt", name="estimated_usd", field=models.FloatField(null=True)),
        migrations.AddField(model_name="trial", name="estimated_usd", field=models.FloatField(null=True)),
    ]
