"""What the text of SkillLearnBench says about its own tables, recomputed from their cells.

A claim is stated in our words with its place in the paper; its reading is in skilllearnbench_readings. Claims about
pictures without printed numbers (Figures 2, 4, 5) cannot be checked and are not here. Source: arXiv 2604.20087v1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchapp.papers.published_rows import Cells
from benchapp.papers.release import PAPER
from tests.benchapp.errata import skilllearnbench_readings
from tests.benchapp.errata.checks import TracedErratum, WatchedCells, names_of
from tests.benchapp.errata.skilllearnbench_readings import CREATOR, ONE, SELF, TEACHER, Check

LOOSE = "loose wording"  # the kind of a claim that one reading breaks and another keeps


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of the text: where it stands, the table it is about, what it says, and its check."""

    place: str
    table: str
    says: str
    check: Check
    kind: str = "text"


def broken_claims(cells: Cells) -> Iterator[TracedErratum]:
    """The claims that the tables do not bear out."""
    for claim in CLAIMS:
        watched = WatchedCells(cells)
        told = claim.check(watched)
        if told is not None:
            borne_out = "bears it out only in part" if claim.kind == LOOSE else "says otherwise"
            sentence = f"A claim of the text, in our words; {claim.table} {borne_out}."
            concerned = names_of(watched.read)
            yield TracedErratum(PAPER, claim.table, claim.place, claim.says, told, claim.kind, sentence, concerned)


def first(metric: str, method: str, table: str, *, lowest: bool = False) -> Check:
    return skilllearnbench_readings.first_is(metric, method, table=table, lowest=lowest)


CLAIMS: tuple[Claim, ...] = (
    # section 4.2: main results
    Claim(
        "Section 4.2",
        "Table 2",
        "All methods are more accurate than no skill.",
        skilllearnbench_readings.below(
            "Table 2", "accuracy", skilllearnbench_readings.of_reference("no-skill", "accuracy"), above=True
        ),
    ),
    Claim(
        "Section 4.2",
        "Table 2",
        "All stay far below human-authored skills.",
        skilllearnbench_readings.all_far_below_human,
    ),
    Claim(
        "Section 4.2",
        "Table 2",
        "They mostly cost less than human-authored skills.",
        skilllearnbench_readings.mostly_cheaper_than_human,
    ),
    Claim(
        "Section 4.2",
        "Table 2",
        "Self feedback is first, one-shot second.",
        skilllearnbench_readings.self_is_first_then_one_shot,
    ),
    Claim(
        "Section 4.2", "Table 2", "Self feedback uses the fewest tokens.", first("tokens", SELF, "Table 2", lowest=True)
    ),
    Claim(
        "Section 4.2",
        "Table 2",
        "Teacher feedback's skills are used least.",
        first("use", TEACHER, "Table 2", lowest=True),
    ),
    Claim(
        "Section 4.2",
        "Table 2",
        "Another method is best with another model.",
        skilllearnbench_readings.best_varies("Table 2", "accuracy", "model"),
    ),
    # section 5: categories and behaviour
    Claim(
        "Section 5.1",
        "Table 3",
        "Software engineering and productivity gain most.",
        skilllearnbench_readings.gains_lead,
    ),
    Claim(
        "Section 5.1",
        "Table 3",
        "No method is best in all categories.",
        skilllearnbench_readings.best_varies("Table 3", "accuracy", "group"),
    ),
    Claim(
        "Section 5.3",
        "Table 2",
        "Teacher feedback covers more and is used less.",
        skilllearnbench_readings.teacher_covers_more_and_is_used_less,
    ),
    Claim("Section 5.3", "Table 2", "Skill creator's skills are used most.", first("use", CREATOR, "Table 2")),
    # appendices A and C: seeds, models
    Claim(
        "Appendix A",
        "Table 4",
        "More seeds: fewer skills, lower coverage.",
        skilllearnbench_readings.fewer_and_lower_with_more_seeds,
    ),
    Claim(
        "Appendix C",
        "Table 2",
        "The model explains more variance than the method.",
        skilllearnbench_readings.model_explains_more_than_method,
    ),
    Claim(
        "Appendix C",
        "Table 2",
        "The model dominates the variance of accuracy.",
        skilllearnbench_readings.model_dominates,
    ),
    Claim(
        "Appendix C",
        "Table 2",
        "The middle model keeps up in both families.",
        skilllearnbench_readings.middle_is_competitive,
    ),
    Claim(
        "Appendix C",
        "Table 2",
        "One-shot gets worse with the largest Claude.",
        skilllearnbench_readings.one_shot_degrades_with_opus,
    ),
    Claim(
        "Appendix C",
        "Table 2",
        "Gemini Flash and Pro both improve over Flash Lite.",
        skilllearnbench_readings.larger_gemini_improve,
        LOOSE,
    ),
    Claim(
        "Appendix C",
        "Table 2",
        "With larger Gemini models, self feedback and skill creator surpass teacher feedback.",
        skilllearnbench_readings.surpass_teacher_in_larger_gemini,
        LOOSE,
    ),
    Claim(
        "Appendix C",
        "Table 2",
        "Teacher feedback is steadiest across Claude.",
        skilllearnbench_readings.teacher_is_steadiest_of_claude,
    ),
    Claim(
        "Appendix C",
        "Table 2",
        "Cost falls with size but for one-shot in Gemini.",
        skilllearnbench_readings.cost_falls_with_size,
    ),
    # appendices D to F: tokens, repeated trials, tasks
    Claim(
        "Appendix D",
        "Table 6",
        "All methods need fewer tokens than human-authored skills.",
        skilllearnbench_readings.below(
            "Table 6", "tokens", skilllearnbench_readings.of_reference("human-authored", "tokens", "Table 6")
        ),
    ),
    Claim(
        "Appendix D",
        "Table 6",
        "Human-authored skills cost slightly more than none.",
        skilllearnbench_readings.human_costs_more_than_none,
    ),
    Claim(
        "Appendix D",
        "Table 6",
        "Teacher feedback nears the cost of no skill.",
        skilllearnbench_readings.teacher_approaches_none,
        LOOSE,
    ),
    Claim(
        "Appendix E",
        "Table 7",
        "Three trials keep the order of the methods.",
        skilllearnbench_readings.orders_agree,
        LOOSE,
    ),
    Claim(
        "Appendix E",
        "Table 7",
        "The printed spreads of accuracy are 13 to 17.",
        skilllearnbench_readings.spreads_are_as_said,
    ),
    Claim(
        "Appendix F",
        "Table 8",
        "Human-authored skills reach from near zero to all.",
        skilllearnbench_readings.human_spans_from_zero_to_perfect,
    ),
    Claim(
        "Appendix F",
        "Table 8",
        "No method leads at all tasks.",
        skilllearnbench_readings.best_varies("Table 8", "accuracy", "group"),
    ),
    # appendices G to I: judged dimensions
    Claim(
        "Appendix G",
        "Table 10",
        "Completeness: the two complex methods lead.",
        skilllearnbench_readings.lowest_are("executability_completeness", ONE, SELF, table="Table 10"),
    ),
    Claim(
        "Appendix G",
        "Table 10",
        "Determinism: teacher feedback leads.",
        first("executability_determinism", TEACHER, "Table 10"),
    ),
    Claim(
        "Appendix G", "Table 10", "Consistency: one-shot leads.", first("executability_consistency", ONE, "Table 10")
    ),
    Claim(
        "Appendix G",
        "Table 10",
        "Teacher feedback and skill creator give up consistency and usability.",
        skilllearnbench_readings.complex_methods_lose_usability,
        LOOSE,
    ),
    *(
        Claim("Appendix H", "Table 11", f"{metric}: {method} leads.", first(f"safety_{metric}", method, "Table 11"))
        for method, metrics in ((ONE, "privacy injection integrity"), (CREATOR, "bias illegal untrusted"))
        for metric in metrics.split()
    ),
    *(
        Claim(
            "Appendix H",
            "Table 11",
            f"{metric}: teacher feedback is last.",
            first(f"safety_{metric}", TEACHER, "Table 11", lowest=True),
        )
        for metric in ("injection", "integrity")
    ),
    *(
        Claim(
            "Appendix I",
            "Table 12",
            f"Trajectories with skills are better aligned than those without ({metric}).",
            skilllearnbench_readings.against_none(metric),
            LOOSE,
        )
        for metric in ("alignment", "alignment_order", "alignment_keypoint", "alignment_completeness")
    ),
    Claim(
        "Appendix I",
        "Table 12",
        "Another method aligns best with another model.",
        skilllearnbench_readings.best_varies("Table 12", "alignment", "model"),
    ),
    Claim(
        "Appendix I",
        "Table 12",
        "Teacher feedback with Opus aligns best.",
        skilllearnbench_readings.opus_teacher_aligns_best,
    ),
    # appendix J: cases
    Claim(
        "Appendix J, case 1",
        "Table 13",
        "Lowest coverage, highest accuracy: teacher feedback.",
        skilllearnbench_readings.teacher_is_reversed,
    ),
    Claim(
        "Appendix J, case 2",
        "Table 14",
        "Methods that beat no skill cover less than half.",
        skilllearnbench_readings.covers_less_than_half,
        LOOSE,
    ),
    Claim(
        "Appendix J, case 3",
        "Table 15",
        "Skill creator is followed and still fails.",
        skilllearnbench_readings.creator_follows_but_fails,
    ),
)
