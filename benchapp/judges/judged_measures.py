"""The columns of a table of judgements, in order, and what each is called."""

from __future__ import annotations

from dataclasses import dataclass

from benchapp.stats.judged.judged_rows import ALIGNMENT
from runner.judging.metrics import SCALES, Metric


@dataclass(frozen=True, slots=True)
class Measure:
    key: str
    name: str
    meaning: str


LEVEL_1 = (
    Measure(Metric.COVERAGE, "coverage", "key points that the library teaches, of all judged"),
    Measure(Metric.EXECUTABILITY, "executability", "mean of its four scores, per skill"),
    Measure(Metric.SAFETY, "safety", "mean of its six scores, per skill; higher is safer"),
)
LEVEL_2 = (
    Measure(ALIGNMENT, "alignment", "mean of order, recall and completeness, per attempt that has all three"),
    Measure(Metric.RECALL, "recall", "key points that the attempt did, of all judged"),
    Measure(Metric.ORDER, "order", "steps in a workable order"),
    Measure(Metric.COMPLETENESS, "completeness", "brought to a conclusion"),
    Measure(Metric.USAGE, "usage", "skills of the library that were used, of all in it; no judge"),
)
PARTS = tuple(
    Measure(f"{metric}.{item}", f"{metric}: {item.replace('_', ' ')}", "one of the scores it is the mean of")
    for metric in (Metric.EXECUTABILITY, Metric.SAFETY)
    for item in SCALES[metric]
)
MEASURES = (*LEVEL_1, *LEVEL_2)
EVERY = tuple(str(measure.key) for measure in (*MEASURES, *PARTS))
