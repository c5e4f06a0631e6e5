"""Fit an author's request into its model's context window, by cutting evidence and the answer's limit, nothing else.

Evidence is what trials and corpora say. Instructions, the form of the answer, the task and the family's skills stay
whole: an author that does not see a skill would overwrite it. Tokens are estimated at CHARS_PER_TOKEN characters. That
is few for English (four) and code (about three and a half), so too much is cut rather than too little. If a provider
still refuses and counts the prompt, its count replaces the estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from runner.authoring.material import MAX_CORPUS_CHARS, text_of
from runner.authoring.occasion import Occasion
from runner.base.errors import ContextExceeded
from runner.base.types import Finding, ModelReply, ModelRequest

CHARS_PER_TOKEN = 3.0
COUNTED = (
    0.95  # of the characters per token that a provider's count gives: another cut of the text may have more tokens
)
ANSWER_SHARE = 3  # at most a third of the window is kept for the answer
SMALLEST_ANSWER = 1_024  # tokens; a patch has whole files
RULE = "context-window"

Build = Callable[[Occasion, int], ModelRequest]  # the request of an occasion, given the limit on output tokens


@dataclass(frozen=True, slots=True)
class PromptWindow:
    """What is known of a model's context window. `tokens` None: unknown, so nothing is cut."""

    tokens: int | None
    chars_per_token: float = CHARS_PER_TOKEN

    def after(self, refused: ContextExceeded, request: ModelRequest) -> PromptWindow:
        """Learn from a refusal. If it gives no number, half of what was sent counts as the window."""
        sent = _characters(request)
        rate = (
            self.chars_per_token if not refused.prompt else min(self.chars_per_token, COUNTED * sent / refused.prompt)
        )
        named = refused.window or int(sent / rate / 2)
        return PromptWindow(named if self.tokens is None else min(named, self.tokens), rate)


def fit(
    occasion: Occasion, build: Build, max_tokens: int, window: PromptWindow
) -> tuple[ModelRequest, tuple[str, ...]]:
    """Return the whole request if it fits, else one with shorter evidence and a lower limit on the answer; and a
    sentence for each thing that was cut."""
    whole = build(occasion, max_tokens)
    if window.tokens is None:
        return whole, ()
    least = min(max_tokens, max(window.tokens // ANSWER_SHARE, SMALLEST_ANSWER))
    over = _characters(whole) - int((window.tokens - least) * window.chars_per_token)
    notes = []
    if over > 0:
        occasion, left_out = _with_less_evidence(occasion, over)
        if left_out:
            notes.append(
                f"{left_out:,} characters of evidence were left out to fit the author model's context window"
                f" ({window.tokens:,} tokens)"
            )
    prompt = int(_characters(build(occasion, max_tokens)) / window.chars_per_token)
    answer = min(max_tokens, max(window.tokens - prompt, min(least, SMALLEST_ANSWER)))
    if answer < max_tokens:
        notes.append(f"the answer was limited to {answer:,} tokens instead of {max_tokens:,} to fit the same window")
    return build(occasion, answer), tuple(notes)


def findings_of(reply: ModelReply, whose: str) -> tuple[Finding, ...]:
    """Report what was cut to get this reply, as findings. `whose`: the author's, the student's or the teacher's."""
    return tuple(Finding(RULE, "", f"{whose} prompt: {note}", "warning") for note in reply.notes)


def fair_shares(lengths: Sequence[int], room: int) -> list[int]:
    """Share `room` among pieces of these lengths: short ones whole, an equal size for the others."""
    shares, left = [0] * len(lengths), max(room, 0)
    for rank, place in enumerate(sorted(range(len(lengths)), key=lengths.__getitem__)):
        shares[place] = min(lengths[place], left // (len(lengths) - rank))
        left -= shares[place]
    return shares


def _with_less_evidence(occasion: Occasion, over: int) -> tuple[Occasion, int]:
    """Cut at least `over` characters, if the evidence is that long, and return how many were left out."""
    texts = [compaction.text for _, compaction, _ in occasion.evidence]
    corpus = min(MAX_CORPUS_CHARS, sum(len(text_of(file) or "") for file in occasion.corpus.values()))
    lengths = [*map(len, texts), corpus]
    *shares, corpus_room = fair_shares(lengths, sum(lengths) - over)
    cut = [_cut(text, share) for text, share in zip(texts, shares, strict=True)]
    evidence = tuple(
        (shown, replace(compaction, text=text), verdict)
        for (shown, compaction, verdict), (text, _) in zip(occasion.evidence, cut, strict=True)
    )
    left_out = sum(missing for _, missing in cut) + corpus - corpus_room
    return replace(occasion, evidence=evidence, corpus_room=corpus_room), left_out


def _cut(text: str, room: int) -> tuple[str, int]:
    """Keep the beginning and the end of a record within `room`, and count what is missing. The beginning has the
    verdict and the task, the end has the outcome."""
    if len(text) <= room:
        return text, 0
    kept = max(0, room - len(mark_evidence_left_out(len(text))) - 2)
    end = kept // 2
    missing = len(text) - kept
    return f"{text[: kept - end]}\n{mark_evidence_left_out(missing)}\n{text[len(text) - end :] if end else ''}", missing


def mark_evidence_left_out(characters: int) -> str:
    return f"[... {characters:,} characters of evidence left out to fit the model's context window ...]"


def _characters(request: ModelRequest) -> int:
    return sum(len(str(message.get("content") or "")) for message in request.messages)
