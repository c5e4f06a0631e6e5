"""Running a task's own verifier and reading what it leaves."""

from runner.verifying.verifier import run_verifier

__all__ = ["run_verifier"]
