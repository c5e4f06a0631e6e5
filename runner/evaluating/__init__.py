"""Declared evaluations: a task that says what is compared with what, and no script that decides by itself.

SkillGenBench, section 3.4: *execution* runs the submitted program on hidden cases, *artifact* compares what it made with
a reference. Comparing happens on this side: a reference output never enters the sandbox.

`declaration` says what can be asked for (`runner.suites.tasks.evaluation_toml` reads it); one file per way of comparing;
`prechecks` sorts out what cannot be compared; `submission` runs in the sandbox; `evaluate` and `artifact` turn what it
did into outcomes, `verdicts` makes the verdict of these.
"""
