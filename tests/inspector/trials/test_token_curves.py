"""The curves of tokens by step beside each other."""

from __future__ import annotations

from inspector.pages.trials.token_curves import draw_curves


def test_a_step_that_tells_its_input_alone_makes_the_sum_a_lower_bound() -> None:
    curves = draw_curves(((10, 1), (20, None)), ((10, 1), (None, None)), (None, None))
    assert curves.left is not None
    assert curves.right is not None
    assert (curves.left.total, curves.left.is_partial) == (31, True)
    assert (curves.right.total, curves.right.is_partial, curves.right.known) == (11, False, 1)
