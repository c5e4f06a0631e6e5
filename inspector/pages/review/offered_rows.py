"""Which rows a form of review offers: they depend on the version, the code or the moment, so no class can name them."""

from __future__ import annotations

from django import forms
from django.db.models import Model, QuerySet


def offer_rows(form: forms.Form, name: str, rows: QuerySet[Model]) -> None:
    """Lets the field choose among these rows. TypeError for a field that chooses no rows."""
    field = form.fields[name]
    if not isinstance(field, forms.ModelChoiceField):
        raise TypeError(f"{name} chooses no rows")
    field.queryset = rows
