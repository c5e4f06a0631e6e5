"""How alike two steps are, from 0 to 1000. A heuristic, and named so wherever it decides what a reader sees.

Three parts: the same tools (200), words in common of what they were called with (600), and of what came back (200):
the same tool with the same short result is not yet the same step.
What was not the agent's doing (prompts) belongs together whatever it says, so that a longer prompt is one difference.
"""

from __future__ import annotations

from collections import Counter

from benchapp.analysis.alignment.step_signs import StepSign

WHOLE = 1_000
LEAST = 450  # less alike, and two steps do not belong together
TOOLS, ACTION, RESULT = 200, 600, 200
GIVEN = 500  # what two prompts have for being prompts


def measure_likeness(left: StepSign, right: StepSign) -> int:
    """Symmetric; WHOLE only for steps that did the same and got the same."""
    if left.source != right.source:
        return 0
    is_same_action = left.action == right.action and left.tools == right.tools
    if is_same_action and left.result == right.result:
        return WHOLE
    if left.is_given:
        return GIVEN + count_shared(left.action_words, right.action_words, WHOLE - GIVEN - 1)
    if not left.tools and not right.tools:
        return count_shared(left.action_words, right.action_words, WHOLE - 1)
    if not left.tools or not right.tools:
        return 0
    tools = TOOLS if left.tools == right.tools else _shared_tools(left.tools, right.tools)
    action = ACTION if is_same_action else count_shared(left.action_words, right.action_words, ACTION - 1)
    return tools + action + count_shared(left.result_words, right.result_words, RESULT - 1)


def count_shared(left: int, right: int, most: int) -> int:
    """The words in both, of the words in either, scaled to `most`. Two texts without words are alike."""
    either = (left | right).bit_count()
    return most * (left & right).bit_count() // either if either else most


def _shared_tools(left: tuple[str, ...], right: tuple[str, ...]) -> int:
    mine, theirs = Counter(left), Counter(right)
    return TOOLS * (mine & theirs).total() // (mine | theirs).total()
