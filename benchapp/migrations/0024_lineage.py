from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('benchapp', '0023_search_again'),
    ]

    operations = [
        migrations.AddField(
            model_name='attempt',
            name='lineage',
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name='attempt',
            name='session_root',
            field=models.CharField(blank=True, db_index=True, max_length=64),
        ),
        migrations.AddField(
            model_name='trajectory',
            name='copied_steps',
            field=models.PositiveIntegerField(default=0),
        ),
    ]
