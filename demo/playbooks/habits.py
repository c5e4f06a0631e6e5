"""Lessons that belong to no family: ways of working that a skill may ask for and a trace may show."""

from __future__ import annotations

from demo.playbooks.playbook import Lesson

HAND_CHECK = Lesson(
    key="hand-check",
    patterns=(
        r"(check|verify|recompute|compare|confirm|test).{0,40}(by hand|against the (rows|lines|input|source|raw))",
        r"(spot|sanity|hand|manual)[ -]?check",
    ),
    symptom=r"by hand against",
    rule="Before handing in, check some lines of the result by hand against the rows they come from, the odd ones first.",
    gotcha="A result that looks tidy can still be wrong where the data is unusual.",
    narrow="Check the first line of the result made from `{file}` by hand.",
    thought="I check a few lines of the result by hand against the rows they come from, the odd ones first.",
    surprise="Checked by hand, a line does not agree with its rows.",
)
KEEP_FILES = Lesson(
    key="keep-files",
    patterns=(
        r"(leave|keep).{0,40}(program|script|solve\.py|notes)",
        r"(never|not|don't).{0,20}(delete|remove|clean).{0,40}(program|script|solve\.py|notes)",
    ),
    symptom=r"expected a file (solve\.py|notes\.md), found none",
    rule="Leave the program and the notes in the folder: they are part of what was asked for.",
    gotcha="A right result without its program or notes is not finished.",
    narrow="Do not remove the program that reads `{file}`.",
    thought="The program and the notes stay where they are.",
    surprise="The program or the notes would be missing; they belong to the result.",
)
HABITS = (HAND_CHECK, KEEP_FILES)

# A bad habit: sounds neat, and removes what was asked for. An author's own idea, without evidence.
TIDY_UP = Lesson(
    key="tidy-up",
    patterns=(r"tidy up before handing in", r"nobody needs the program once"),
    symptom=KEEP_FILES.symptom,  # and that is how it is discovered
    rule="Tidy up before handing in: remove solve.py, so that only the result is left.",
    gotcha="Nobody needs the program once its result is written.",
    narrow="Remove the program that reads `{file}`.",
    thought="The skill asks me to tidy up, so I remove the program.",
    surprise="The program was asked for, and the skill had me remove it.",
)
