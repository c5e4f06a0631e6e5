"""What is told of a Dockerfile before anything is built. Where only the builder knows, nothing is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.base.types import Machine
from runner.sandboxes.docker.docker_contexts import dockerfile_problems
from tests.cases import every


def problems(folder: Path, dockerfile: str, **changes: object) -> list[str]:
    (folder / "Dockerfile").write_bytes(dockerfile.encode())
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


@every(
    ("COPY missing.txt /x", "COPY: missing.txt is not in the build context"),
    ("add --chown=1:1 data missing.txt /x/", "ADD: missing.txt is not in the build context"),
    ('COPY ["my file.txt", "other file.txt", "/x/"]', "COPY: other file.txt is not in the build context"),
    ("COPY secret.txt /x", "COPY: secret.txt is not in the build context"),  # it is ignored
    ("COPY data/deep/Input.csv /x", "COPY: data/deep/Input.csv is not in the build context"),
    ("RUUN echo", "unknown instruction RUUN"),
)
def test_what_certainly_fails_is_told_with_file_and_line(line: str, told: str, folder: Path) -> None:
    (found,) = problems(folder, f"# comment\nFROM base:1\nRUN one && \\\n  # between\n  two\n\n{line}\n")
    assert found.startswith(f"Dockerfile: line 7: {told}")


def test_a_dockerfile_without_a_base_or_none_at_all_is_told(tmp_path: Path) -> None:
    assert problems(tmp_path, "RUN echo\n") == ["Dockerfile: file: it builds on no image (expected FROM)"]
    (tmp_path / "Dockerfile").unlink()
    (found,) = dockerfile_problems(Machine(context=tmp_path))
    assert "there is none" in str(found)


@every(
    "COPY . /x\nCOPY ./ /x\nCOPY / /x\nCOPY data /x\nADD ./data/deep/input.csv my.csv\nCOPY /data/deep/ /x\nCOPY "
    "../data /x",
    "COPY --from=build /nowhere /x\nADD https://host.example/file /x\nADD git@host.example:a/b.git /x",
    "ARG NAME\nCOPY $NAME ${NAME}.txt miss*.txt [ab].txt /x/",
    "COPY linked/deep/input.csv /x\nCOPY 'my file.txt' /x",
    "COPY skills /root/skills",  # an empty one is sent where there is none
    "RUN <<EOF\nCOPY missing.txt /x\nnothing at all\nEOF\nCOPY <<-A <<B /x/\n\tFOO bar\n\tA\nBAR\nB\nRUN cat <<'END' "
    "> /y\nX\nEND",
    "RUN echo $((1<<2)) && \\\n\n    copying missing.txt\nONBUILD COPY missing.txt /x",
    "# a comment does not go on \\\nRUN echo",
    'HEALTHCHECK --interval=5m CMD curl -f http://localhost/ || exit 1\nSHELL ["/bin/bash", "-c"]\nUSER me',
)
def test_what_is_there_or_only_the_builder_knows_is_not_told(lines: str, folder: Path) -> None:
    assert problems(folder, f"FROM base:1 AS build\n{lines}\n") == []


def test_directives_before_the_first_line_are_followed(folder: Path) -> None:
    windows = "# escape=`\nFROM base:1\nRUN one `\n  two\nCOPY data C:\\data\\\nCOPY missing.txt /x\n"
    assert [found.partition(": C")[0] for found in problems(folder, windows)] == ["Dockerfile: line 6"]
    assert problems(folder, "# syntax=somebody/else:1\nINCLUDE other\n") == []


def test_a_folder_that_is_sent_blank_is_left_to_the_builder(folder: Path) -> None:
    assert problems(folder, "FROM base:1\nCOPY notes/of.md /x\n", blank_folders=("notes",)) == []


@every(
    "FROM\tbase:1\nRUN\techo hi\nCOPY\tdata\t/x\nCOPY --chown=1:1\t--chmod=755\tdata\t/y\n",
    "FROM\x0bbase:1\nRUN echo a \\   \n  b\n",
    "\ufeffFROM base:1\nCOPY data /x\n",
    "\ufeff# syntax=somebody/else:1\nINCLUDE other\n",
    "FROM base:1\r\nRUN one \\\r\n  two\r\nRUN <<EOF\r\nthree\r\nEOF\r\nCOPY data /x\r\n",
    "FROM base:1\nRUN echo a\u2028b\nRUN echo a\x0cb \x85 c\n",  # one line each for the builder
    "FROM base:1\nCOPY data/\\\ndeep/input.csv /x\n",
)
def test_what_separates_words_and_lines_for_the_builder_does_so_here(dockerfile: str, folder: Path) -> None:
    assert problems(folder, dockerfile) == []


def test_a_doubled_escape_does_not_continue_its_line(folder: Path) -> None:
    (found,) = problems(folder, "FROM base:1\nRUN echo a \\\\\nRUUN two\n")
    assert found == "Dockerfile: line 3: unknown instruction RUUN"


@every(
    'RUN cat <<"E O F"\nhi\nE O F',
    "RUN cat <<EOF-1 3<<2EOF\nhi\nEOF-1\nho\n2EOF",
    "RUN cat <<\\EOF <<E'N'D\nhi\nEOF\nho\nEND",
    "RUN echo \" <<EOF\" ' <<EOF' it;<<EOF",  # in quotes or in the middle of a word: the shell's own
    "RUN echo $((1<<2)) $((1 << 2)) <<<EOF",
    "ONBUILD RUN <<EOF\nhi\nEOF",
)
def test_documents_end_where_the_builder_ends_them(lines: str, folder: Path) -> None:
    assert problems(folder, f"FROM base:1\n{lines}\nCOPY data /x\n") == []


@pytest.mark.parametrize("line", ["RUN <<EOF", "RUN cat <<-EOF > /x", "COPY <<A <<EOF /x/\nhi\nA"])
def test_a_document_without_an_end_is_told_where_it_begins_and_its_text_is_not_read(folder: Path, line: str) -> None:
    (found,) = problems(folder, f"FROM base:1\n{line}\necho hi\n  EOF\nCOPY missing.txt /x\n")
    assert found == f"Dockerfile: line 2: {line.split()[0]}: no line ends the heredoc EOF"


SKILL = "---\nname: foo\ndescription: d\n---\n"


@pytest.mark.parametrize(
    "line",
    [
        "COPY .claude/skills /root/.claude/skills",
        "COPY .claude/skills/foo /root/.claude/skills/foo",
        "COPY .claude /root/.claude",
        "COPY docs/skills/foo/SKILL.md /app/",
        "COPY docs /app/docs",
    ],
)
def test_skills_that_are_sent_empty_can_be_copied_wherever_they_lie(line: str, folder: Path) -> None:
    for place in (".claude/skills/foo", "docs/skills/foo"):
        (folder / place).mkdir(parents=True)
        (folder / place / "SKILL.md").write_text(SKILL)
    blank = (".claude/skills", "docs/skills")
    assert problems(folder, f"FROM base:1\n{line}\n", blank_folders=blank) == []
    (found,) = problems(folder, "FROM base:1\nCOPY .claude/other /x\n", blank_folders=blank)
    assert found == "Dockerfile: line 2: COPY: .claude/other is not in the build context"


def test_a_long_word_does_not_hold_up_the_check(folder: Path) -> None:
    word = "x" * 60_000  # the builder takes lines of up to 65,535 bytes
    lines = f"RUN echo {word} && \\\n" * 40
    assert problems(folder, f"FROM base:1\n{lines} echo\n", blank_folders=("skills",)) == []
