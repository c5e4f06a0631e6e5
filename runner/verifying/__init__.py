"""Runs a task's own verifier and reads what it leaves. Tasks without one are judged in `evaluating`."""

from runner.verifying.verifier import run_verifier

__all__ = ["run_verifier"]
