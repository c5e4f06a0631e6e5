"""A stretch of a print is found again whatever was done to the text, and what is found is what was printed."""

from __future__ import annotations

import pytest

from runner.prompts.pack_layout import Piece
from runner.prompts.pack_taking import PrintedText, digest_words

PIECE = Piece.model_validate({"after": "Box 1", "from": "You keep the skills", "to": ["nothing else."]})
LISTING = Piece.model_validate({**PIECE.model_dump(by_alias=True), "listing": True})
BODY = "You keep the skills of a team.\n- Keep them short.\n- Answer with one object and nothing else."


def found(text: str, piece: Piece = PIECE, *, is_source: bool = False) -> str | None:
    return PrintedText(text, is_source=is_source).find(piece)


def test_it_gives_what_stands_between_its_ends_and_no_more() -> None:
    assert found(f"You keep the skills first.\nBox 1\n{BODY} Figure 2: nothing else.") == BODY


@pytest.mark.parametrize("text", ["Box 1 You keep the skills", "Box 1 You lose the skills. nothing else."])
def test_without_one_of_its_ends_there_is_nothing(text: str) -> None:
    assert found(text) is None


def test_a_heading_may_be_missing_and_a_name_of_a_listing_may_not() -> None:
    assert found(f"Box 2 {BODY}") == BODY
    named = Piece.model_validate({**PIECE.model_dump(by_alias=True), "after": "_SYSTEM ="})
    assert found(f"_SYSTEM = {BODY}", named) == BODY
    assert found(f"_OTHER = {BODY}", named) is None


def test_ends_are_known_by_their_signs_and_not_by_their_spaces_or_quotes() -> None:
    piece = Piece.model_validate({"from": 'Don\'t "guess" - ask', "to": ["the end."]})
    printed = "Don’t\n “guess” —\task twice, to the\nend."
    assert found(printed, piece) == printed


def test_pages_lose_their_numbers_and_running_heads_and_nothing_else() -> None:
    head = "A paper on skills"
    first, second, third = BODY.split("\n")
    pages = [f"{head}\nBox 1\n{first}\n   7", f"{head}\n{second}\n8", f"{head}\n{third}\n9", f"{head}\nThe end\n10"]
    assert found("\f".join(pages)) == BODY


def test_an_indentation_that_all_lines_share_goes_and_the_rest_stays() -> None:
    printed = "    Box 1\n    You keep the skills\n      - of a team\n    and nothing else."
    assert found(printed) == "You keep the skills\n  - of a team\nand nothing else."


def test_a_word_broken_at_a_line_end_is_whole_again_where_the_text_has_it_whole() -> None:
    printed = (
        "We trust verifiers.\nBox 1\nYou keep the skills a veri-\nfiers likes and high-\nsignal ones, nothing else."
    )
    assert found(printed) == "You keep the skills a verifiers likes and high-signal ones, nothing else."


def test_a_listing_keeps_its_hyphens_and_has_line_ends_for_written_ones() -> None:
    printed = "Box 1\nYou keep the skills\\n\nof a pre-\nfix team\\nand nothing else."
    assert found(printed, LISTING) == "You keep the skills\nof a pre-\nfix team\nand nothing else."


def test_fences_of_a_conversion_go_and_fences_of_a_prompt_stay() -> None:
    converted = "```\nBox 1\nYou keep the skills\n```\n\n```\nof a team and nothing else.\n```\n"
    assert found(converted) == "You keep the skills\n\nof a team and nothing else."
    own = "Box 1\nYou keep the skills\n```\n{trace}\n```\nand nothing else."
    assert found(own) == "You keep the skills\n```\n{trace}\n```\nand nothing else."


def test_a_rule_is_taken_in_its_whole_length() -> None:
    piece = Piece.model_validate({"from": "===== START", "to": ["done. ====="]})
    assert found("x ===== START here, done.\n==========\n\nmore", piece) == "===== START here, done.\n=========="


def test_a_piece_without_known_last_words_ends_before_what_follows_it() -> None:
    piece = Piece.model_validate({"after": "A =", "from": "=====", "before": "# Next", "listing": True})
    assert found('A = """\\\n=====\nWords.\n"""\n\n# Next part', piece) == "=====\nWords."


def test_the_digest_of_words_is_the_same_for_every_print_of_one_text() -> None:
    assert digest_words("“High-\nsignal” notes") == digest_words("'high-signal notes'".replace("high", "High"))
    assert digest_words("High-signal notes") != digest_words("High-signal note")
