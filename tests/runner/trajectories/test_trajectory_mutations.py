"""Copies of every fixture with values exchanged for odd ones: read without an exception, numbered, writable."""

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from io import BytesIO
from pathlib import Path
from typing import Any

from runner.base.types import CompactionKind
from runner.trajectories.atif_values import step_from_json, step_to_json
from runner.trajectories.compaction import compact
from runner.trajectories.readers.reading import read_trajectory
from runner.trajectories.step_outline import outline_row
from tests.cases import every

FIXTURES = sorted((Path(__file__).resolve().parents[2] / "fixtures" / "trajectories").iterdir())
ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -7,
    1.5,
    float("inf"),
    10**30,
    "",
    "text",
    "\0",
    "\ud800",
    [],
    [None],
    [[1]],
    {},
    {"a": {}},
)
COPIES = 40


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of every value below."""
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(item, dict | list):
            yield from places(item)


def mutated(content: str, dice: random.Random) -> bytes:
    is_lines = content.startswith('{"')
    values = [json.loads(line) for line in content.splitlines()] if is_lines else json.loads(content)
    for _ in range(dice.randint(1, 6)):
        container, key = dice.choice(list(places(values)) or [(values, 0)])
        if not container:
            break
        if dice.random() < 0.2:
            del container[key]
        else:
            container[key] = deepcopy(dice.choice(ODD))
    text = "\n".join(map(json.dumps, values)) if is_lines else json.dumps(values)
    return text.encode()


@every(*FIXTURES)
def test_odd_values_anywhere_do_no_harm(path: Path) -> None:
    dice = random.Random(path.name)
    content = path.read_text()
    for _ in range(COPIES):
        broken = mutated(content, dice)
        result = read_trajectory(lambda broken=broken: BytesIO(broken))  # type: ignore[misc]
        steps = list(result.steps)
        assert [step.number for step in steps] == list(range(1, len(steps) + 1))
        for step in [*steps, *(step for subagent in result.subagents for step in subagent.steps)]:
            written = json.dumps(step_to_json(step), allow_nan=False)
            assert step_from_json(json.loads(written)) == step
            json.dumps(outline_row(step)).encode()
        compact(steps, CompactionKind.RICH, title="t")
        json.dumps([result.facts, result.head.extra], allow_nan=False, ensure_ascii=False).encode()
        for problem in result.problems:
            assert problem.place
            assert problem.expected
