"""A draft of twelve steps as a loop and people leave it: an unusable answer, a returned draft, an edit, a trial. Its
texts are hostile where a model or a person wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import orjson
from django.utils import timezone

from benchapp.models import Blob, Draft, DraftStep, Snapshot, User
from runner.base.types import File
from tests.worlds.factories import make_suite, number

Texts = dict[str, str]

RULES = """# Late fees of the library

## Grace
- A book is late from the second day after its due date.

## Fee
- Each late day costs 20 cents.
- No fee is above 5 euros.
"""
CRITIQUE = (
    "The verifier of late-fees-1 counts the due date as a late day. The corpus says that a book is late from the "
    "second day after it.\nExpected for loan 17: 0.40. The expected file says 0.60. <script>alert(1)</script>"
)


def _task(key: str, what: str, answer: str) -> Texts:
    place = f"tasks/{key}"
    return {
        f"{place}/task.toml": f'version = "1.0"\n\n[task]\nname = "{what}"\n\n[metadata]\nfamily = "late-fees"\n',
        f"{place}/instruction.md": f"# {what}\n\nRead `loans.csv`. Write the fee of each loan to `fees.csv`.\n",
        f"{place}/environment/loans.csv": "loan,due,returned\n"
        + "".join(f"{n},2026-03-0{n},2026-03-09\n" for n in range(1, 8)),
        f"{place}/tests/test.sh": "#!/bin/sh\npython3 /tests/verify.py\n",
        f"{place}/tests/expected.csv": f"loan,fee\n17,{answer}\n",
        f"{place}/solution/solve.sh": "#!/bin/sh\nawk -F, 'NR>1{print $1\",\"$3-$2}' loans.csv > fees.csv\n",
    }


def make_draft(files: Mapping[str, str] | None = None, **fields: Any) -> Draft:
    """A draft from a corpus that has only what it was given."""
    head = Snapshot.objects.put(
        {path: File(text.encode()) for path, text in (files or {"corpus/fees.md": RULES}).items()}
    )
    brief = {"loop": "corpus", "family": "late-fees", "goal": "Fees that a <b>rule</b> decides.", "tasks": 2}
    draft = Draft.objects.create(
        **{
            "name": f"late-fees-{number()}",
            "loop": "corpus",
            "brief": brief,
            "model": "scripted/apprentice",
            "head": head,
            "asked_at": timezone.now() - timedelta(minutes=40),
            **fields,
        }
    )
    add_step(draft, "given", {}, before=Snapshot.objects.put({}), after=head)
    return draft


def add_step(draft: Draft, kind: str, texts: Mapping[str, str | None], **fields: Any) -> DraftStep:
    """The next step, which writes these files and removes those without a text. `says`: the reply of a model."""
    before, after = fields.pop("before", draft.head), fields.pop("after", None)
    if after is None:
        files = dict(before.read())
        for path, text in texts.items():
            if text is None:
                files.pop(path)
            else:
                files[path] = File(text.encode())
        after = Snapshot.objects.put(files) if texts else before
    place = draft.steps.count() + 1
    started = draft.asked_at + timedelta(minutes=2 * place)
    step = DraftStep.objects.create(
        **{
            "draft": draft,
            "number": place,
            "kind": kind,
            "status": "taken",
            "before": before,
            "after": after,
            "started_at": started,
            "finished_at": started + timedelta(seconds=20),
            **fields,
        }
    )
    draft.head = after
    draft.save(update_fields=["head"])
    return step


def add_answer(draft: Draft, role: str, key: str, texts: Mapping[str, str | None], **fields: Any) -> DraftStep:
    """An answer of the scripted model, with its request and reply."""
    prompt = f"# You are the {role}\n\nDraft it.\n\n## Corpus\n\n{RULES}\n<script>alert(2)</script>\n"
    request = {"messages": [{"role": "system", "content": "Answer with JSON."}, {"role": "user", "content": prompt}]}
    said = fields.pop("says", '{"files": {}}')
    reply = {"text": said, "finish_reason": "stop", "model": "scripted/apprentice"}
    digests = Blob.objects.put_many([orjson.dumps(request), orjson.dumps(reply)])
    given = {"request_id": digests[0], "reply_id": None if said is None else digests[1]}
    told = {
        "model": "scripted/apprentice",
        "scripted": True,
        "input_tokens": 2_310,
        "output_tokens": 845,
        "cost_usd": 0.0,
    }
    return add_step(draft, "answer", texts, role=role, key=key, **{**told, **given, **fields})


def make_whole_draft(person: User, **fields: Any) -> Draft:
    """Twelve steps from a corpus to a suite under trial."""
    draft = make_draft(name="late-fees", asked_by=person, **fields)
    add_answer(
        draft,
        "reader",
        "reader",
        {"notes/units.json": '[{"unit": "grace"}, {"unit": "fee"}]\n'},
        summary="3 units of 1 document",
    )
    add_answer(draft, "planner", "planner", {}, status="unusable", says="Sure! <b>Here</b> are some scenarios:",
               error="the reply: expected a JSON object with the key scenarios; found text without any object")  # fmt: skip  # noqa: E501
    add_answer(draft, "planner", "planner", {"notes/scenarios.json": '["one branch", "two branches"]\n'}, summary="2 "
        "scenarios",
               findings=["scenario 3: left out, it names the unit 'weekend' that no document has"])  # fmt: skip
    add_answer(
        draft,
        "architect",
        "task/1",
        _task("late-fees-1", "Fees of one branch", "0.60"),
        summary="late-fees-1: fees of one <i>branch</i>",
    )
    add_answer(
        draft, "critic", "critic/1", {}, accepts=False, words=CRITIQUE, summary="Returned: a defect in late-fees-1"
    )
    add_answer(
        draft,
        "architect",
        "task/1/2",
        {"tasks/late-fees-1/tests/expected.csv": "loan,fee\n17,0.40\n"},
        summary="late-fees-1 revised",
    )
    add_answer(draft, "critic", "critic/2", {}, accepts=True, summary="Taken")
    add_answer(
        draft,
        "architect",
        "task/2",
        _task("late-fees-2", "Fees of two branches", "1.20"),
        summary="late-fees-2: fees of two branches",
    )
    add_step(draft, "edit", {"tasks/late-fees-2/instruction.md": "# Fees of two branches\n\nRead `loans.csv`. Branch "
        "B is closed on Mondays.\nWrite the fee of each loan to `fees.csv`.\n"},
             by=person, summary="Wrote tasks/late-fees-2/instruction.md")  # fmt: skip
    add_answer(
        draft,
        "architect",
        "task/3",
        {},
        status="failed",
        says=None,
        error="ModelError: the provider did not answer in 120 s",
    )
    draft.suite = make_suite(key=f"draft-late-fees-{number()}", name="late-fees under trial")
    draft.status = Draft.Status.DONE
    draft.save(update_fields=["suite", "status"])
    add_step(draft, "trial", {}, by=person, summary=f"Written as {draft.suite.key}")
    return draft
