"""The kinds of source material that skills are generated from (SkillGenBench, section 3.1), as the record tells them."""

from __future__ import annotations

from django.apps import apps
from django.db.models import F, Value
from django.db.models.expressions import Combinable

REPOSITORY, CODE_DOCUMENT, DOMAIN_DOCUMENT = "repository", "code-document", "domain-document"
CORPORA: tuple[str, ...] = ("", REPOSITORY, CODE_DOCUMENT, DOMAIN_DOCUMENT)  # "": none, or not told
CODE = (REPOSITORY,)  # the columns of the paper's Table 2
DOC = (CODE_DOCUMENT, DOMAIN_DOCUMENT)
NAMES = {
    REPOSITORY: "Code Repo",
    CODE_DOCUMENT: "Code Doc",
    DOMAIN_DOCUMENT: "Domain Doc",
    "": "source not told",
}


def kind_at(environment: str) -> Combinable:
    """The kind of an environment that a lookup leads to, for queries."""
    told = hasattr(apps.get_model("benchapp", "Environment"), "kind")
    return F(f"{environment}__kind") if told else Value("")
