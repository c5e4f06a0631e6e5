"""The form of an answer: which fields one JSON object must have, as a JSON schema that the prompt quotes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runner.judging.metrics import HIGHEST, LABELS, LOWEST, REFERENCES, SCALES, Metric

MAX_POINTS = 40
POINT_FIELDS = ("text", "reason", "reference")
_TEXT = {"type": "string"}


@dataclass(frozen=True, slots=True)
class Form:
    """One of three: items with a score and a reason each, one label with its reason, or a list of points."""

    items: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    points: bool = False

    def as_json_schema(self) -> dict[str, Any]:
        if self.items:
            score = {"type": "integer", "minimum": LOWEST, "maximum": HIGHEST}
            return _object({item: _object({"score": score, "reason": _TEXT}) for item in self.items})
        if self.labels:
            return _object({"label": {"enum": list(self.labels)}, "reason": _TEXT})
        point = _object(dict.fromkeys(POINT_FIELDS, _TEXT))
        return _object({"points": {"type": "array", "maxItems": MAX_POINTS, "items": point}})


def form_of(metric: Metric) -> Form:
    """ValueError for a metric that nobody is asked about."""
    if metric in SCALES:
        return Form(items=SCALES[metric])
    if metric in LABELS:
        return Form(labels=LABELS[metric])
    if metric in REFERENCES:
        return Form(points=True)
    raise ValueError(f"{metric} is counted, not asked")


def _object(properties: dict[str, object]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}
