"""The pages that every page leads to: their words, their keys, and the sections of pages that belong to each."""

from __future__ import annotations

from typing import NamedTuple

from benchapp.models import User

ANYONE = User.Level.VIEWER


class Place(NamedTuple):
    words: str
    key: str = ""
    level: str = ANYONE  # who sees the link
    sections: str = ""


# By the name of the page's address, in the order of the bar and of the menu.
PLACES = {
    "index": Place(
        "Experiments",
        "g h",
        sections="experiment run library blame findings author skills judgements judged probe trial compare chart"
        " comparison comparisons launch imports publish",
    ),
    "review": Place(
        "Review",
        "g r",
        sections="review-item queue codebook codebooks agreement disagreements resolve results suggestions",
    ),
    "suites": Place("Suites", "g s", sections="suite drafts draft"),
    "jobs": Place("Jobs", "g j", sections="operate"),
    "published": Place("Papers", "g p"),
    "documents": Place("Help", "g d", sections="document"),
    "account": Place("Your account"),
    "comments": Place("Comments"),
    "activity": Place("Activity"),
    "people": Place("People", level=User.Level.ADMIN),
}
# What a person can start from any page.
ACTS = {
    "launch": Place("Launch an experiment", level=User.Level.OPERATOR),
    "imports": Place("Import runs", level=User.Level.OPERATOR),
    "compare": Place("Compare runs"),
    "publish": Place("Published files", level=User.Level.REVIEWER),
    "queue-new": Place("Start a review queue", level=User.Level.REVIEWER),
    "draft-new": Place("Draft a task", level=User.Level.OPERATOR),
}
