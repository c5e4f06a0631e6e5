"""Probes: is the mounted library the named round without exactly the named hunks?"""

from __future__ import annotations

from collections.abc import Iterator

from benchapp.audit.check_finding import Flaw, Unchecked
from benchapp.experiments.probe_runs import AskedProbe, read_choice, remove_hunks
from benchapp.models import Probe
from runner.base.digests import digest_json, library_digest
from runner.base.errors import RunnerError


def check_probes() -> Iterator[Flaw | Unchecked]:
    related = ("run__experiment", "origin__run", "decision", "frozen", "library")
    for probe in Probe.objects.select_related(*related).order_by("id").iterator(chunk_size=100):
        yield from _check_probe(probe)


def _check_probe(probe: Probe) -> Iterator[Flaw | Unchecked]:
    ident, spec = str(probe.public_id), probe.run.experiment.spec.get("probe") or {}
    ids = [hunk["id"] for hunk in probe.reverted]
    if spec.get("library") != probe.library.digest:
        yield Flaw("probe", ident, f"mounts {probe.library.digest}, but its experiment says {spec.get('library')}")
    if probe.reverted_digest != (digest_json(ids) if ids else ""):
        yield Flaw("probe", ident, "the digest of its hunks is not that of the hunks it names")
    if not ids and probe.library_id != probe.frozen_id:
        yield Flaw("probe", ident, "took nothing back, and yet mounts another library than the round it froze")
    if probe.origin is None or (ids and probe.decision is None and not probe.skill):
        yield Unchecked("probe", ident, "the run it comes from is not here: its library cannot be made again")
        return
    yield from check_remaking(probe)


def check_remaking(probe: Probe) -> Iterator[Flaw]:
    """Yield probes whose library the origin's record no longer produces as it did at the launch."""
    assert probe.origin is not None
    ids = [hunk["id"] for hunk in probe.reverted]
    number = probe.decision.number if probe.decision else None
    try:
        chosen = read_choice(probe.origin, AskedProbe(probe.state, number, skill=probe.skill))
        hunks = chosen.find_hunks(ids)
        made = library_digest(remove_hunks(chosen, hunks))
    except RunnerError as error:
        yield Flaw("probe", str(probe.public_id), f"its library cannot be made again: {error}")
        return
    if len(hunks) != len(ids) or made != probe.library.digest:
        told = f"{probe.state} without its {len(ids)} hunks is {made}, but {probe.library.digest} was mounted"
        yield Flaw("probe", str(probe.public_id), told)
