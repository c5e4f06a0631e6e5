"""The Django project and the record of what was run, imported and decided. Pages are in `inspector`; what needs no
database is in `runner`. Only settings and entry points are directly in this folder."""
