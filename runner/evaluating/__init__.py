"""Declared evaluations: a task that says what is compared with what, without a script that decides.

SkillGenBench, section 3.4: *execution* runs the submitted program on hidden cases, *artifact* compares its output with
a reference. Comparisons run outside the sandbox: a reference output never enters it.

`declaration` has the possible declarations (`runner.suites.tasks.evaluation_toml` reads them) and rejects what cannot
be compared. Each way of comparing has a file below `comparisons`. `evaluate` runs the submission in the sandbox and
makes the verdict; `judged_artifact` asks a judge about an artifact.
"""
