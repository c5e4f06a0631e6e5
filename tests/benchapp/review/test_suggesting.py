from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchapp.analysis.trial_rules import RULES_VERSION
from benchapp.models import Attempt, Blob, QueueItem, Suggestion, TaskRevision, Trial
from benchapp.review.blinding import Hidden
from benchapp.review.suggestions.suggestion_runs import Names, UnknownCode, suggest, suggestions_for
from runner.base.types import CheckStatus, Observation, Source, Step, ToolCall
from tests.worlds.factories import (
    make_decision,
    make_episode,
    make_family,
    make_snapshot,
    make_trial,
    make_user,
    record_steps,
)
from tests.worlds.review_factories import make_item, make_queue, make_review, make_version

pytestmark = pytest.mark.django_db

CODES = ("Silent bypass", "numeric / formula", "over-specific")


def bypassed() -> Trial:
    trial = make_trial(success=False, mounted=["tidy-tables"])
    _record(trial, "ls", "numbers.csv")
    return trial


def _record(trial: Trial, command: str, result: str) -> None:
    attempt = trial.counting_attempt()
    assert attempt is not None
    call = ToolCall("c1", "Bash", {"command": command})
    record_steps(
        attempt,
        [
            Step(1, Source.USER, "Sum the numbers."),
            Step(2, Source.AGENT, "I look.", tool_calls=(call,), observations=(Observation(result, "c1"),)),
            Step(3, Source.AGENT, "I could not finish."),
        ],
    )


def rows(item: QueueItem) -> list[tuple[str, str, bool]]:
    return [(row.rule, row.code_name, row.code is not None) for row in item.suggestions.all()]


def test_it_stores_what_the_rules_say_under_the_codes_of_the_version() -> None:
    queue = make_queue([bypassed()], version=make_version(CODES))
    assert suggest(queue) == 1
    assert rows(queue.items.get()) == [
        ("silent-bypass", "Silent bypass", True),
        ("numeric-mismatch", "numeric / formula", True),
    ]
    assert {row.source_version for row in Suggestion.objects.all()} == {RULES_VERSION}


def test_it_keeps_the_name_where_the_version_has_no_such_code() -> None:
    queue = make_queue([bypassed()], version=make_version(["something else"]))
    suggest(queue)
    assert ("silent-bypass", "silent bypass", False) in rows(queue.items.get())


def test_it_says_that_it_looked_where_no_rule_spoke() -> None:
    queue = make_queue([make_trial(success=True)])
    assert suggest(queue) == 0
    assert rows(queue.items.get()) == [("", "", False)]


def test_repeating_it_changes_nothing_and_follows_what_has_changed() -> None:
    queue = make_queue([bypassed()], version=make_version(CODES))
    suggest(queue)
    before = list(Suggestion.objects.values_list("pk", "public_id"))
    suggest(queue)
    assert list(Suggestion.objects.values_list("pk", "public_id")) == before
    Attempt.objects.update(exception_type="AgentTimeoutError")
    suggest(queue)
    assert ("agent-timeout", "agent timeout", False) in rows(queue.items.get())
    assert Suggestion.objects.filter(rule="silent-bypass").count() == 1


def test_it_leaves_what_an_earlier_version_of_the_rules_said() -> None:
    queue = make_queue([bypassed()], version=make_version(CODES))
    item, user = queue.items.get(), make_user()
    Suggestion.objects.create(item=item, source="rules", source_version="rules/0", rule="old", code_name="old")
    suggest(queue)
    assert Suggestion.objects.filter(source_version="rules/0").count() == 1
    shown = suggestions_for(item, user)
    assert isinstance(shown, list)
    assert "old" not in [row.rule for row in shown]


def test_a_mapping_sends_a_rule_to_another_code_and_names_its_mistakes() -> None:
    queue = make_queue([bypassed()], version=make_version(CODES))
    suggest(queue, mapped={"silent-bypass": "over-specific"})
    assert rows(queue.items.get())[0] == ("silent-bypass", "over-specific", True)
    with pytest.raises(UnknownCode, match="'nothing' is not a rule"):
        suggest(queue, mapped={"nothing": "over-specific"})
    with pytest.raises(UnknownCode, match="no code 'nowhere'"):
        suggest(queue, mapped={"silent-bypass": "nowhere"})


def test_names_differ_in_case_and_punctuation_only() -> None:
    names = Names.of(make_version(["Asset/Artifact", "silent bypass"]))
    assert names.find("asset artifact") is not None
    assert names.find("silent-bypass") is not None
    assert names.find("artifact") is None


def test_it_asks_the_database_no_more_for_more_items() -> None:
    version = make_version(CODES)
    counts = []
    for size in (2, 6):
        queue = make_queue([bypassed() for _ in range(size)], version=version)
        with CaptureQueriesContext(connection) as captured:
            suggest(queue)
        counts.append((len(captured) - 2) / size)
    assert counts[0] == pytest.approx(counts[1], abs=0.8)


def test_it_redacts_what_it_quotes() -> None:
    trial = make_trial(success=False)
    _record(trial, "ls", "x")
    attempt = trial.counting_attempt()
    assert attempt is not None
    check = attempt.verdicts.get().checks.get(status=CheckStatus.FAILED)
    check.message = "KeyError: 'sk-abcdefghij0123456789'"
    check.save()
    queue = make_queue([trial])
    suggest(queue)
    quote = queue.items.get().suggestions.get(rule="interface-schema").quote
    assert "0123456789" not in quote
    assert "[redacted" in quote


def test_it_examines_a_decision_by_what_it_added() -> None:
    family = make_family()
    shown = family.tasks.order_by("ordinal").first()
    instruction = Blob.objects.put(b"Clean sales_q3_2019.csv and hand it in.")
    TaskRevision.objects.filter(task=shown).update(instruction_id=instruction)
    episode = make_episode()
    trial = make_trial(episode, shown, success=False)
    before = make_snapshot({"tidy/SKILL.md": "# Tidy\n"})
    after = make_snapshot({"tidy/SKILL.md": "# Tidy\n\nOpen sales_q3_2019.csv first.\n"})
    decision = make_decision(episode, family, after_trial=trial, before=before, after=after, evidence=[trial])
    queue = make_queue([], version=make_version(CODES), unit="decision")
    suggest(make_item(queue, decision=decision))
    assert rows(queue.items.get()) == [("over-specific", "over-specific", True)]
    library = make_queue([], version=queue.version, unit="snapshot")
    suggest(make_item(library, snapshot=after, episode=episode))
    assert rows(library.items.get()) == [("over-specific", "over-specific", True)]


# --- who sees them ----------------------------------------------------------------------------------------------


def test_they_stay_hidden_until_the_review_is_submitted() -> None:
    user = make_user()
    queue = make_queue([bypassed()], version=make_version(CODES), reviewers=[user], hides_suggestions=True)
    suggest(queue)
    item = queue.items.get()
    assert isinstance(suggestions_for(item, user), Hidden)
    review = make_review(item, user, state="draft")
    assert isinstance(suggestions_for(item, user), Hidden)
    review.state = "submitted"
    type(review).objects.filter(pk=review.pk).update(state="submitted")
    shown = suggestions_for(item, user)
    assert [row.rule for row in shown] == ["silent-bypass", "numeric-mismatch"]  # type: ignore[union-attr]


def test_shown_in_a_blind_queue_they_tell_neither_skills_nor_words() -> None:
    user = make_user()
    queue = make_queue([bypassed()], version=make_version(CODES), reviewers=[user], hides_suggestions=False)
    suggest(queue)
    shown = suggestions_for(queue.items.get(), user)
    assert [(row.rule, row.quote, row.reason) for row in shown] == [("numeric-mismatch", "", "")]  # type: ignore[union-attr]
    assert Suggestion.objects.exclude(reason="").count() == 2  # the record still has them


def test_an_empty_suggestion_is_never_shown() -> None:
    queue = make_queue([make_trial(success=True)])
    suggest(queue)
    assert suggestions_for(queue.items.get(), make_user()) == []


# --- the command ------------------------------------------------------------------------------------------------


def test_the_command_runs_the_rules_and_names_what_is_wrong(tmp_path, capsys) -> None:
    queue = make_queue([bypassed()], version=make_version(CODES))
    call_command("suggest", str(queue.public_id))
    assert "suggestions for 1 of 1 items" in capsys.readouterr().out
    names = tmp_path / "names.yaml"
    names.write_text("silent-bypass: over-specific\n")
    call_command("suggest", str(queue.public_id), names=names)
    assert rows(queue.items.get())[0][1] == "over-specific"
    names.write_text("- a list\n")
    with pytest.raises(CommandError, match="expected one mapping"):
        call_command("suggest", str(queue.public_id), names=names)
    with pytest.raises(CommandError, match="there is no queue"):
        call_command("suggest", "00000000-0000-0000-0000-000000000000")
