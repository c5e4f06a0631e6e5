"""The kinds of source material that skills are generated from (SkillGenBench, section 3.1), as tables call them."""

from __future__ import annotations

from runner.base.types import CorpusKind

CORPORA: tuple[str, ...] = ("", *(kind.value for kind in CorpusKind))  # "": none, or not told
CODE = (CorpusKind.REPOSITORY.value,)  # the columns of the paper's Table 2
DOC = (CorpusKind.CODE_DOCUMENT.value, CorpusKind.DOMAIN_DOCUMENT.value)
NAMES = {
    CorpusKind.REPOSITORY.value: "Code Repo",
    CorpusKind.CODE_DOCUMENT.value: "Code Doc",
    CorpusKind.DOMAIN_DOCUMENT.value: "Domain Doc",
    "": "source not told",
}
