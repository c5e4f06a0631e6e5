"""The demo experiments. One runs the starter suite under several memory conditions with a scripted model, the other two
of its tasks with a small language model."""

from __future__ import annotations

DEMO: dict[str, object] = {
    "name": "Demo: six memory conditions on the starter suite (scripted)",
    "key": "demo",
    "suite": "starter",
    "conditions": [
        "no-skill",
        "raw-trajectory",
        "curated-static",
        "curated-always",
        "selfgen-zero-shot",
        "selfgen-always",
    ],
    "replicates": 1,
    "seed": 6,
    "answers": 2,  # a rejected or unreadable answer may be repeated once; both stay on the record
    "agent": "shell",
    "agent_model": "scripted/apprentice",
    "author_model": "scripted/apprentice",
    "sandbox": "local",
}

# Short, because the model takes seconds for a hundred tokens, and solves nothing.
SMALL_DEMO: dict[str, object] = {
    "name": "Demo: a small language model on two tasks",
    "key": "demo-small",
    "suite": "starter-corpora",
    "protocol": "skillgenbench",
    "environments": ["boxes", "canal-days"],
    "conditions": ["no-skill", "naive-prompt"],
    "replicates": 1,
    "seed": 6,
    "agent": "shell",
    "agent_model": "small-smollm2-135m",
    "author_model": "small-smollm2-135m",
    "sandbox": "local",
    "limits": {"max_turns": 3, "max_output_tokens": 200, "timeout_seconds": 300},
}
