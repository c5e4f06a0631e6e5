"""A paper's prompts come out of a copy word for word, in whatever shape the copy is; what is missing is named."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from runner.base.errors import SetupError
from runner.prompts.pack_layout import PackLayout, read_layouts
from runner.prompts.pack_taking import (
    AS_EXPECTED,
    DIFFERS,
    NO_PDF,
    PrintedText,
    TakenPack,
    keep_pack,
    take_in,
    take_prompts,
)
from runner.prompts.prompt_pack import MARK, PackMessage, packs_folder, read_pack
from runner.prompts.roles import VALUES, Asked
from tests.conftest import SHARED_DATA, require
from tests.runner.prompts.small_papers import OURS, as_pages, layout_named, small_paper, small_piece, write_papers
from tests.runner.prompts.test_prompt_pack import write_pack

PAPERS = SHARED_DATA.parent / "papers"
WITH_PROMPTS = [layout for layout in read_layouts() if layout.prompts]
EACH = pytest.mark.parametrize("layout", WITH_PROMPTS, ids=lambda layout: layout.name)


@pytest.fixture(autouse=True)
def var(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SKILLGLASS_VAR", str(tmp_path / "var"))
    return tmp_path / "var"


def taken_from(path: Path, name: str) -> TakenPack:
    return next(pack for pack in take_prompts(path).packs if pack.layout.name == name)


def squeeze(text: str) -> str:
    return re.sub(r"\s+", "", text)


def as_printed(message: PackMessage) -> str:
    """The message with every placeholder as the paper prints it."""
    return MARK.sub(lambda mark: mark[0] if mark[1] in message.literal else f"{{{mark[1]}}}", message.text)


# --- a copy's shape -------------------------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("shape", ["plain", "pages", "layout", "converted", "listing"])
def test_every_prompt_comes_out_of_every_shape_of_a_copy(tmp_path: Path, layout: PackLayout, shape: str) -> None:
    printed = small_paper(layout)
    text = {
        "plain": printed,
        "pages": as_pages(printed),
        "layout": as_pages(printed, indent="     "),
        "converted": printed.replace(" Our own", "\n```\n\n```\nOur own").replace(
            "rest well.", "rest well.\n```\n\n```\n"
        ),
        "listing": printed.replace("rest well.", "rest well.\\n"),
    }[shape]
    if shape == "listing" and layout.name != "skillevolbench":
        pytest.skip("only that paper prints source code")
    (tmp_path / "paper.txt").write_text(text, "utf-8")
    pack = taken_from(tmp_path / "paper.txt", layout.name)
    assert [each.problem for each in pack.prompts] == [""] * len(layout.prompts)
    assert {each.digest for each in pack.prompts} == {DIFFERS}  # the words are ours
    require_pieces(layout, pack, {name: small_piece(layout, name) for name in layout.pieces})


@EACH
def test_the_strings_of_a_release_are_read_as_the_program_reads_them(tmp_path: Path, layout: PackLayout) -> None:
    """Escapes, code around them, and doubled braces where `str.format` fills a template."""
    words = OURS + ' "\\n" {"a": 1}'
    filled = {part.piece for each in layout.prompts for m in each.messages if m.values for part in m.parts}
    pieces = {name: small_piece(layout, name, words) for name in layout.pieces}
    source = ["def helper():\n    return 1\n"]
    for name, piece in layout.pieces.items():
        body = pieces[name].replace('{"a": 1}', '{{"a": 1}}') if name in filled else pieces[name]
        names = piece.after.removesuffix(" =") if piece.after.endswith("=") else name.replace("-", "_").upper()
        source.append(f"{names} = {body + piece.before!r}\n")
        if name.endswith("-start") and piece.after:  # the system prompts of one name are one string
            rules = layout.pieces[name.replace("start", "rules")]
            source[-1] = f"{names} = {body!r} + {small_piece(layout, name.replace('start', 'rules'), words)!r}\n"
            assert rules.after == piece.after
    folder = tmp_path / "release" / "src"
    folder.mkdir(parents=True)
    (folder / "prompts.py").write_text("\n".join(source), "utf-8")
    (folder / "broken.py").write_text("def (:\n", "utf-8")
    taken = take_prompts(tmp_path / "release")
    assert [copy.path.name for copy in taken.unread] == ["broken.py"]
    pack = next(each for each in taken.packs if each.layout == layout)
    assert [each.problem for each in pack.prompts] == [""] * len(layout.prompts)
    require_pieces(layout, pack, pieces)


def require_pieces(layout: PackLayout, pack: TakenPack, pieces: dict[str, str]) -> None:
    """Every message says its pieces and our words one after the other, and nothing else."""
    for found, prompt in zip(pack.prompts, layout.prompts, strict=True):
        assert found.prompt is not None
        for message, told in zip(found.prompt.messages, prompt.messages, strict=True):
            parts = []
            for part in told.parts:
                text = part.own.replace("{{", "{").replace("}}", "}") or pieces[part.piece]
                for slot, other in part.put.items():
                    text = text.replace(f"{{{slot}}}", pieces[other])
                parts.append(text)
            assert squeeze(as_printed(message)) == squeeze("".join(parts)), prompt.stem


def test_what_a_copy_lacks_is_named_and_the_rest_is_taken(tmp_path: Path) -> None:
    layout = layout_named("skillevolbench")
    text = small_paper(layout).replace("_INDUCE_USER_TEMPLATE =", "").replace("{family_id_for_this_task}", "(lost)")
    (tmp_path / "paper.txt").write_text(text, "utf-8")
    pack = taken_from(tmp_path / "paper.txt", "skillevolbench")
    assert {each.layout.occasion: each.problem for each in pack.prompts} == {
        "zero-shot": "",
        "induce": "not found: induce-user",
        "revise": "the copy lacks the placeholder {family_id_for_this_task}",
        "revise-tier3": "the copy lacks the placeholder {family_id_for_this_task}",
    }
    assert pack.pack is not None
    assert [each.occasion for each in pack.pack.prompts] == ["zero-shot"]


def test_a_text_with_nothing_of_a_paper_gives_no_pack(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Nothing\nof the kind\n", "utf-8")
    assert all(pack.pack is None for pack in take_prompts(tmp_path).packs)


def test_what_cannot_be_read_is_told_and_the_rest_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_papers(tmp_path, "skillflow")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "paper.pdf").write_bytes(b"%PDF-1.5 no pdf")
    (tmp_path / "link.txt").symlink_to("/etc/passwd")
    monkeypatch.setenv("PATH", str(tmp_path))
    taken = take_prompts(tmp_path)
    told = {copy.path.name: copy.problem for copy in taken.unread}
    assert set(told) == {"bytes.txt", "paper.pdf"}
    assert told["paper.pdf"] == NO_PDF
    assert next(pack for pack in taken.packs if pack.layout.name == "skillflow").pack is not None
    with pytest.raises(SetupError, match="there is none"):
        take_prompts(tmp_path / "nowhere")


def test_a_pdf_goes_through_the_converter_that_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for `pdftotext` that prints a text: what is tried is the call and the reading of its output."""
    (tmp_path / "text").write_text(as_pages(small_paper(layout_named("skillflow")), indent="    "), "utf-8")
    program = tmp_path / "pdftotext"
    program.write_text(
        f"#!{sys.executable}\nimport pathlib, sys\n"
        "assert sys.argv[1:4] == ['-enc', 'UTF-8', '-layout'] and sys.argv[5] == '-', sys.argv\n"
        f"if 'bad' in sys.argv[4]: sys.exit('Syntax Error: no trailer')\n"
        f"sys.stdout.write(pathlib.Path({str(tmp_path / 'text')!r}).read_text('utf-8'))\n",
        "utf-8",
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("paper.pdf", "bad.pdf"):
        (tmp_path / name).write_bytes(b"%PDF-1.5")
    assert taken_from(tmp_path / "paper.pdf", "skillflow").pack is not None
    (unread,) = take_prompts(tmp_path / "bad.pdf").unread
    assert unread.problem == "pdftotext: Syntax Error: no trailer"


def test_the_real_converter_refuses_what_is_no_pdf(tmp_path: Path) -> None:
    require(shutil.which("pdftotext") is not None, "pdftotext is not installed")
    (tmp_path / "paper.pdf").write_bytes(b"no pdf")
    assert take_prompts(tmp_path / "paper.pdf").unread[0].problem.startswith("pdftotext: ")


# --- the layouts ----------------------------------------------------------------------------------------------------


@EACH
def test_a_layout_names_only_pieces_values_and_occasions_that_there_are(layout: PackLayout) -> None:
    for prompt in layout.prompts:
        known = VALUES[prompt.asked]
        assert set(prompt.pieces) <= layout.pieces.keys()
        assert {value for message in prompt.messages for value in message.values.values()} <= known.keys()
        owned = [MARK.findall(part.own) for message in prompt.messages for part in message.parts]
        assert {name for names in owned for name in names} <= known.keys()
    assert all(gap.asked in VALUES and gap.why for gap in layout.absent)
    assert all(re.fullmatch("[0-9a-f]{16}", piece.words) for piece in layout.pieces.values())


def test_anchors_are_too_short_to_be_a_copy() -> None:
    for layout in WITH_PROMPTS:
        for piece in layout.pieces.values():
            assert all(len(anchor.split()) <= 8 for anchor in (piece.after, piece.start, piece.before, *piece.to))


# --- kept -----------------------------------------------------------------------------------------------------------


def test_a_pack_is_kept_once_and_replaced_only_when_asked(tmp_path: Path, var: Path) -> None:
    pack = taken_from(write_papers(tmp_path / "papers", "skillflow"), "skillflow").pack
    assert pack is not None
    folder = keep_pack(pack)
    assert folder == packs_folder() / "skillflow" == var / "prompts" / "skillflow"
    assert read_pack(folder).digest == pack.digest
    assert keep_pack(pack) == folder
    (folder / "author-evolve.user.txt").write_text("Another text.\n", "utf-8")
    with pytest.raises(SetupError, match="holds another pack 'skillflow': --replace"):
        keep_pack(pack)
    keep_pack(pack, replace=True)
    assert read_pack(folder).digest == pack.digest
    assert [path.name for path in (var / "prompts").iterdir()] == ["skillflow"]


def test_a_pack_of_ones_own_is_checked_and_taken_in(tmp_path: Path) -> None:
    pack = take_in(write_pack(tmp_path / "mine"))
    assert read_pack(packs_folder() / "mine").digest == pack.digest
    with pytest.raises(SetupError, match="'skillflow' is kept for the paper's own prompts"):
        take_in(write_pack(tmp_path / "skillflow"))


# --- the papers themselves --------------------------------------------------------------------------------------------


@pytest.mark.shared_data
@EACH
def test_what_is_sent_is_what_the_paper_prints(layout: PackLayout) -> None:
    """Byte for byte but for placeholders, and for the line ends, fences and written-out line ends of the print."""
    paper = (PAPERS / f"{layout.name}.txt").read_text("utf-8")
    pack = taken_from(PAPERS, layout.name)
    assert {each.digest for each in pack.prompts} == {AS_EXPECTED}
    text = PrintedText(paper)
    pieces = {name: text.find(piece) or "" for name, piece in layout.pieces.items()}
    listed = re.sub(r"^```$", "", paper, flags=re.MULTILINE).replace("\\n", "")
    for name, text in pieces.items():
        assert len(text) > 100
        assert squeeze(text) in squeeze(listed if layout.pieces[name].listing else paper), name
    require_pieces(layout, pack, pieces)


@pytest.mark.shared_data
def test_every_prompt_of_the_papers_is_found_and_the_fourth_prints_none() -> None:
    taken = take_prompts(PAPERS)
    assert taken.unread == ()
    found = {pack.layout.name: [each.layout.asked for each in pack.prompts if each.prompt] for pack in taken.packs}
    assert {name: len(asked) for name, asked in found.items()} == {
        "skillevolbench": 4,
        "skillflow": 1,
        "skillgenbench": 0,
        "skilllearnbench": 9,
    }
    assert Asked("teacher", "advice") in found["skilllearnbench"]
