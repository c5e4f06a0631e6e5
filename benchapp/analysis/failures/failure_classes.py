"""The classes, and in which order they are believed where several hold equally well."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from runner.base.types import CorpusKind

CLASSES_VERSION = "failures/2"  # raise it when the same facts may be classed differently


class FailureClass(StrEnum):
    """By the names of the codes in the starter codebook "SkillGenBench failure classes"."""

    RUNTIME = "runtime/dependency"
    INTERFACE = "interface/schema"
    ASSET = "asset/artifact"
    STATE = "state/rule"
    NUMERIC = "numeric/formula"


_R, _I, _A, _S, _N = FailureClass
# By how often SkillGenBench's figure 6 finds them in each source; what it does not print of a source follows.
ORDERS: Mapping[str, tuple[FailureClass, ...]] = {
    CorpusKind.REPOSITORY.value: (_R, _I, _A, _S, _N),
    CorpusKind.CODE_DOCUMENT.value: (_I, _R, _A, _S, _N),
    CorpusKind.DOMAIN_DOCUMENT.value: (_S, _N, _I, _A, _R),
    "": (_R, _A, _I, _N, _S),
}


def get_order(source: str) -> tuple[FailureClass, ...]:
    """`source`: the kind of the corpus; empty, or unknown to us, where the task has none."""
    return ORDERS.get(source, ORDERS[""])
