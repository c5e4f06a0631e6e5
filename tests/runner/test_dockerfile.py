"""What is told of a Dockerfile before anything is built. Where only the builder knows, nothing is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.sandboxes.dockerfile import dockerfile_problems
from runner.types import Machine


def problems(folder: Path, dockerfile: str, **changes: object) -> list[str]:
    (folder / "Dockerfile").write_text(dockerfile)
    found = dockerfile_problems(Machine(context=folder, **changes))
    return [str(problem).removeprefix(f"{folder}/") for problem in found]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "deep" / "input.csv").write_text("a\n")
    (tmp_path / "my file.txt").write_text("b\n")
    (tmp_path / "linked").symlink_to("data")
    (tmp_path / ".dockerignore").write_text("secret.txt\n")
    (tmp_path / "secret.txt").write_text("c\n")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("COPY missing.txt /x", "COPY: no such file (expected missing.txt beside the Dockerfile)"),
        ("add --chown=1:1 data missing.txt /x/", "ADD: no such file (expected missing.txt beside the Dockerfile)"),
        ('COPY ["my file.txt", "other file.txt", "/x/"]', "COPY: no such file (expected other file.txt beside"),
        ("COPY secret.txt /x", "COPY: no such file (expected secret.txt beside"),  # it is ignored
        ("COPY data/deep/Input.csv /x", "COPY: no such file (expected data/deep/Input.csv beside"),
        ("RUUN echo", "there is no instruction RUUN (expected an instruction)"),
    ],
)
def test_what_certainly_fails_is_told_with_file_and_line(folder: Path, line: str, told: str) -> None:
    (found,) = problems(folder, f"# comment\nFROM base:1\nRUN one && \\\n  # between\n  two\n\n{line}\n")
    assert found.startswith(f"Dockerfile: line 7: {told}")


def test_a_dockerfile_without_a_base_or_none_at_all_is_told(tmp_path: Path) -> None:
    assert problems(tmp_path, "RUN echo\n") == ["Dockerfile: file: it builds on no image (expected FROM)"]
    (tmp_path / "Dockerfile").unlink()
    (found,) = dockerfile_problems(Machine(context=tmp_path))
    assert "there is none" in str(found)


@pytest.mark.parametrize(
    "lines",
    [
        "COPY . /x\nCOPY ./ /x\nCOPY / /x\nCOPY data /x\nADD ./data/deep/input.csv my.csv\nCOPY /data/deep/ /x\nCOPY ../data /x",
        "COPY --from=build /nowhere /x\nADD https://host.example/file /x\nADD git@host.example:a/b.git /x",
        "ARG NAME\nCOPY $NAME ${NAME}.txt miss*.txt [ab].txt /x/",
        "COPY linked/deep/input.csv /x\nCOPY 'my file.txt' /x",
        "COPY skills /root/skills",  # an empty one is sent where there is none
        "RUN <<EOF\nCOPY missing.txt /x\nnothing at all\nEOF\nCOPY <<-A <<B /x/\n\tFOO bar\n\tA\nBAR\nB\nRUN cat <<'END' > /y\nX\nEND",
        "RUN echo $((1<<2)) && \\\n\n    copying missing.txt\nONBUILD COPY missing.txt /x",
        "# a comment does not go on \\\nRUN echo",
        'HEALTHCHECK --interval=5m CMD curl -f http://localhost/ || exit 1\nSHELL ["/bin/bash", "-c"]\nUSER me',
    ],
)
def test_what_is_there_or_only_the_builder_knows_is_not_told(folder: Path, lines: str) -> None:
    assert problems(folder, f"FROM base:1 AS build\n{lines}\n") == []


def test_directives_before_the_first_line_are_followed(folder: Path) -> None:
    windows = "# escape=`\nFROM base:1\nRUN one `\n  two\nCOPY data C:\\data\\\nCOPY missing.txt /x\n"
    assert [found.partition(": C")[0] for found in problems(folder, windows)] == ["Dockerfile: line 6"]
    assert problems(folder, "# syntax=somebody/else:1\nINCLUDE other\n") == []


def test_a_folder_that_is_sent_blank_is_left_to_the_builder(folder: Path) -> None:
    assert problems(folder, "FROM base:1\nCOPY notes/of.md /x\n", blank_folders=("notes",)) == []
