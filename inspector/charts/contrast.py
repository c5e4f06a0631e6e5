"""What the conditions of a chart answer: whether they differ, and the finding that is the chart's title."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchapp.stats.comparing.condition_names import SEPARATOR, say_label
from inspector.charts.chart import Answer

ALIKE = 0.1  # of the largest value: numbers of a place within this distance make no contrast
MOST_NAMED = 3  # places in the sentence of a chart whose conditions are alike


def say_alike(answers: Sequence[Answer]) -> str:
    """One sentence in place of a chart whose answer is the same in all conditions, or less than a tenth apart; else empty."""
    who, places = {answer.who for answer in answers}, _split(answers)
    if len(who) < 2 or any(_gap(of) > ALIKE * max(abs(answer.value) for answer in of) for of in places):
        return ""
    shown = [of for of in places if any(answer.value for answer in of)] or places
    numbers = []
    for of in shown[:MOST_NAMED]:
        low, high = min(of, key=_value).text, max(of, key=_value).text
        numbers.append(f"{high if low == high else f'{low} to {high}'} {of[0].what}".strip())
    word = "groups" if any(SEPARATOR in each for each in who) else "conditions"
    same = "The same" if not any(map(_gap, places)) else "About the same"
    return f"{same} in all {len(who)} {word}: {'; '.join(numbers)}."


def write_finding(template: str, answers: Sequence[Answer]) -> str:
    """The template with the two ends of the largest contrast: `high` and `low` are conditions, `most` and `least` their numbers,
    `what` where it is. Empty where there is none."""
    contrast = max((of for of in _split(answers) if len(of) > 1), key=_gap, default=[])
    if not template or not contrast or not _gap(contrast):
        return ""
    high, low = max(contrast, key=_value), min(contrast, key=_value)
    return template.format(
        high=_name(each.who for each in contrast if each.value == high.value),
        most=high.text,
        low=_name(each.who for each in contrast if each.value == low.value),
        least=low.text,
        what=high.what,
    )


def _split(answers: Iterable[Answer]) -> list[list[Answer]]:
    """By place."""
    places: dict[str, list[Answer]] = {}
    for answer in answers:
        places.setdefault(answer.what, []).append(answer)
    return list(places.values())


def _value(answer: Answer) -> float:
    return answer.value


def _gap(of: Sequence[Answer]) -> float:
    values = [answer.value for answer in of]
    return max(values) - min(values)


def _name(labels: Iterable[str]) -> str:
    names = [say_label(label) for label in labels]
    return " and ".join(names) if len(names) < 3 else f"{len(names)} conditions"
