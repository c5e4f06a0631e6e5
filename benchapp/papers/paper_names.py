"""The four papers, by the short key that their rows carry."""

from __future__ import annotations

from collections.abc import Mapping

PAPERS: Mapping[str, str] = {
    "skillevolbench": "SkillEvolBench",
    "skillflow": "SkillFlow",
    "skilllearnbench": "SkillLearnBench",
    "skillgenbench": "SkillGenBench",
}
