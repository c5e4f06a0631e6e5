"""Check one rule on many cases in one test; the message names every case that breaks it, with what came of it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest


def every(*cases: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test with every case as its first argument, a tuple (or `pytest.param`) as its first arguments.

    A case that fails or crashes does not hide the others. Each has an empty folder as its `tmp_path`; all other
    fixtures are shared: a test that changes one is for `parametrize`. With two of these above a test, the lower one
    has the first arguments.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)
        count = len(_values(cases[0])) if cases else 1

        @functools.wraps(test)
        def check_all(*args: Any, **fixtures: Any) -> None:
            folder = fixtures.get("tmp_path")
            failures: list[tuple[str, BaseException]] = []
            for number, case in enumerate(cases):
                if folder is not None:
                    fixtures["tmp_path"] = folder / str(number)
                    fixtures["tmp_path"].mkdir()
                try:
                    test(*_values(case), *args, **fixtures)
                except (Exception, pytest.fail.Exception) as error:
                    failures.append((_name(case), error))
            assert cases, "there are no cases"
            if failures:
                lines = [f"- {name}: {type(error).__name__}: {error}" for name, error in failures]
                head = f"{len(failures)} of {len(cases)} cases fail; the traceback above is of the first"
                raise AssertionError("\n".join([head, *lines])) from failures[0][1]

        parameters = list(signature.parameters.values())[count:]
        check_all.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return check_all

    return decorate


def _values(case: Any) -> tuple[Any, ...]:
    if isinstance(case, type(pytest.param())):
        return tuple(case.values)
    return case if type(case) is tuple else (case,)


def _name(case: Any) -> str:
    if isinstance(case, type(pytest.param())) and case.id:
        return str(case.id)
    return ", ".join(
        next(
            (str(getattr(value, word)) for word in ("name", "key", "__name__") if hasattr(value, word)),
            _short(repr(value)),
        )
        for value in _values(case)
    )


def _short(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:80]}… ({len(text)} characters)"
