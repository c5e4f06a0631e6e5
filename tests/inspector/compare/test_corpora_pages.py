"""A run over a corpus says which kind of corpus it is, wherever its environment is named."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.worlds.factories import make_environment, make_episode, make_family, make_trial

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("kind", "said"), [("code-document", "code document corpus"), ("repository", "repository corpus"), ("", "")]
)
def test_the_kind_of_a_corpus_stands_beside_its_name(client: Client, kind: str, said: str) -> None:
    environment = make_environment(name="The manual", kind=kind)
    family = make_family(environment=environment)
    trial = make_trial(make_episode(environment=environment), family.tasks.first())
    run = trial.episode.run
    for address in (run.get_absolute_url(), f"{run.get_absolute_url()}library/", trial.get_absolute_url()):
        page = client.get(address).text
        assert "The manual" in page
        assert (said in page) if said else ("corpus" not in page), address
