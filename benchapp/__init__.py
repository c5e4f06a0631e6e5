"""The Django project and the record of what was run, imported and decided."""
