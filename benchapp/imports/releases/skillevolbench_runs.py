"""SkillEvolBench run folders: workspace/runs/<run id>/ with config.json, stores/, library/ and harbor-job/.

A run folder is a run of the experiment named after the folders around it, so that runs imported one by one or together
end up in the same one. Its episodes are the environments, or one if the library was global. Trials come from the replay
records and the Harbor folders they name; decisions, seeds and the freeze from the events; contents from the commits.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchapp.imports.reading import found_sources as sources
from benchapp.imports.reading.documents import Document, find_object, read_object
from benchapp.imports.reading.unread import report_folders
from benchapp.imports.reading.walking import Root, name_of
from benchapp.imports.releases.skillevolbench_history import (
    NAME,
    Events,
    Library,
    Record,
    Story,
    find_harbor_trial,
    order_of,
)
from runner.suites.skillevolbench_suite import ENVIRONMENTS

__all__ = ["NAME", "TITLE", "claims", "find"]

TITLE = "SkillEvolBench"

GLOBAL = "all"
# The release's names of its baselines, in our words; others keep their own.
CONDITIONS = {
    "no_skill": "no-skill",
    "raw_trajectory_rag": "raw-trajectory",
    "selfgen_zero_shot": "selfgen-zero-shot",
    "selfgen_experience": "selfgen-revision",
    "selfgen_experience_always": "selfgen-always",
    "selfgen_experience_always_with_tier3": "selfgen-always-tier3",
    "curated_static": "curated-static",
    "curated_with_revision": "curated-revision",
    "curated_with_revision_always": "curated-always",
    "curated_with_revision_always_with_tier3": "curated-always-tier3",
}
WITHOUT_AUTHOR = {"no-skill", "raw-trajectory", "curated-static"}
_OF_BASELINE = ("library_scope", "feedback_level", "retriever_type", "skill_retrieval_k", "track", "within_env_replay")
_OF_CONFIG = ("order_seed", "dry_run", "max_tasks")


def claims(root: Root, folder: Path) -> bool:
    """Is it one run's folder: stores/ next to a config.json with a run id and a baseline?"""
    config = find_object(root, folder / "config.json") if root.is_dir(folder / "stores") else None
    return config is not None and {"run_id", "baseline"} <= config.raw.keys()


def find(root: Root, folder: Path) -> Iterator[sources.FoundExperiment]:
    config = read_object(root, folder / "config.json")
    if config is None:
        return
    run_id = config.text("run_id", 200) or name_of(folder)
    path = folder / "benchmark_hash.txt"
    content = root.read(path, 4_096) if root.is_file(path) else None
    benchmark = content.decode("utf-8", "replace").strip()[:200] if content else ""
    documents = _documents(root, folder)
    run = build_run(config, run_id, benchmark, name_run(run_id, documents))
    libraries = _libraries(root, folder)
    jobs = folder / "harbor-job"  # harbor-job/<run id>/<trial>, even if the job's folder has another name
    folders = root.listing(jobs)[0] if root.is_dir(jobs) else []
    trials = {name_of(trial): trial for job in folders for trial in root.listing(job)[0]}
    found = []
    for document in documents:
        episode = _episode(document, libraries)
        library = libraries.get(episode.key)
        given = document.text("library_hash_pre", 64) or ""
        skills = partial(library.slugs, given) if library is not None else lambda: None
        found.append(Record(document, run, episode, find_harbor_trial(root, trials, document), skills))
    named = {record.harbor.folder for record in found if record.harbor is not None}
    left = sorted(trial for trial in trials.values() if trial not in named)
    report_folders(root, jobs, left, "trials that a replay record names")
    records = sorted(found, key=lambda record: record.order)
    events = Events.read(root, folder / "stores" / "events")
    if not records:
        root.report(folder, "", "replay records in stores/replay/records", "none: only what the folder's config says")
    yield sources.FoundExperiment(
        sources.ExperimentSource.of_folder(root, folder.parent, format=NAME, title=TITLE),
        trials=tuple(records),
        histories=tuple(_histories(run, records, libraries, events)),
    )


def name_run(run_id: str, documents: list[Document]) -> str:
    """Return a name that differs from a run of the same id in another workspace: an id is made of settings and a
    minute. The name uses the first record, which does not change when the run continues."""
    if not documents:
        return run_id
    first = min(documents, key=order_of)
    return f"{run_id}@{hashlib.sha256(json.dumps(first.raw, sort_keys=True).encode()).hexdigest()[:12]}"


def build_run(config: Document, run_id: str, benchmark: str, own: str) -> sources.RunSource:
    baseline, strategy = config.object("baseline"), config.object("strategy")
    named = baseline.text("name", 100) or run_id.partition("__")[0]
    condition = CONDITIONS.get(named, named.replace("_", "-")) or sources.UNKNOWN
    author = strategy.text("author_model", 200) or sources.UNKNOWN
    # With a model preset, the author's model differs from the strategy's: then the run's id has one part more.
    if run_id.count("__") > 3:
        author = sources.UNKNOWN
    setup: dict[str, object] = {"source": NAME, "run_id": run_id, "baseline": named}
    setup["strategy"] = strategy.text("name", 100)
    for document, keys in ((baseline, _OF_BASELINE), (config, _OF_CONFIG)):
        setup |= {key: document.raw[key] for key in keys if isinstance(document.raw.get(key), str | int | float)}
    if benchmark:
        setup["benchmark_hash"] = benchmark
    return sources.RunSource(
        harness=baseline.text("harbor_agent_name", 100) or sources.UNKNOWN,
        agent_model=baseline.text("model_name", 200) or sources.UNKNOWN,
        author_model="" if condition in WITHOUT_AUTHOR else author,
        condition=condition,
        skills=own,
        setup=setup,
    )


def _libraries(root: Root, folder: Path) -> dict[str, Library]:
    """Return libraries by environment; under GLOBAL if one library served all."""
    base = folder / "library"
    if not root.is_dir(base):
        return {}
    if root.exists(base / ".git"):
        return {GLOBAL: Library(root, base)}
    return {name_of(sub): Library(root, sub) for sub in root.listing(base)[0] if root.exists(sub / ".git")}


def _documents(root: Root, folder: Path) -> list[Document]:
    stored = folder / "stores" / "replay" / "records"
    if not root.is_dir(stored):
        return []
    paths = [entry.path for entry in root.listing(stored)[1] if entry.name.endswith(".json")]
    return [document for path in paths if (document := read_object(root, path)) is not None]


def _episode(document: Document, libraries: dict[str, Library]) -> sources.EpisodeSource:
    env = document.text("env_id", 40) or (document.text("task_id", 200) or "").partition("-")[0] or sources.UNKNOWN
    if GLOBAL in libraries:
        return sources.EpisodeSource(GLOBAL, "All environments")
    title = ENVIRONMENTS.get(env, "").replace("-", " ").capitalize()
    ordinal = list(ENVIRONMENTS).index(env) if env in ENVIRONMENTS else len(ENVIRONMENTS)
    return sources.EpisodeSource(env, f"{env}: {title}" if title else env, ordinal=ordinal)


def _histories(
    run: sources.RunSource, records: list[Record], libraries: dict[str, Library], events: Events
) -> Iterator[sources.HistorySource]:
    """Yield histories of the episodes whose library can be read: without its contents a decision is empty."""
    grouped: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        grouped[record.episode.key].append(record)
    for key, mine in grouped.items():
        library = libraries.get(key)
        if library is None or not library.states:
            continue
        yield sources.HistorySource(
            run=run,
            episode=mine[0].episode,
            suite=NAME,
            path=library.root.label(library.folder),
            trials=tuple(record.ids[0] for record in mine),
            read=partial(Story(library, events).moments, mine),
            at=library.began,
        )
