"""The demo experiment: the starter suite under several memory conditions, with the scripted stand-in as the model."""

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
    "answers": 2,  # a rejected or unreadable answer may be given once more; both stay on the record
    "agent": "shell",
    "agent_model": "scripted/apprentice",
    "author_model": "scripted/apprentice",
    "sandbox": "local",
}
