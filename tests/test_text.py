"""Does `einformer generate` write what the model says, with the tokens of its tokenizer, or bytes?"""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Theirs
from tokenizers import decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, GPT2LMHeadModel

from einformer.cli import main
from einformer.text import Bytes, Spelling, Tokenizer, Tokens


def written(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["generate", *arguments])
    return code, capsys.readouterr().out


@functools.cache
def tokenizer() -> Any:
    """Bytes, and pairs of them as often as they stand in a sentence."""
    made: Any = Theirs(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(["one équation, one line"] * 9, trainers.BpeTrainer(vocab_size=280, initial_alphabet=alphabet))
    return made


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy of the saved model, which a test may change."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of transformers with its tokenizer: what `save_pretrained` writes."""
    sizes = {"vocab_size": tokenizer().get_vocab_size(), "n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 64}
    config: Any = AutoConfig.for_model("gpt2", **sizes, bos_token_id=None, eos_token_id=None, initializer_range=0.5)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made: Any = GPT2LMHeadModel(config)
    path = tmp_path_factory.mktemp("saved")
    made.save_pretrained(path)
    tokenizer().save(str(path / "tokenizer.json"))
    return path


def test_the_text_is_that_of_transformers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    theirs: Any = GPT2LMHeadModel.from_pretrained(folder)
    tokenizer = Theirs.from_file(str(folder / "tokenizer.json"))
    read = tokenizer.encode("one line é").ids
    text = theirs.generate(
        torch.tensor([read]), attention_mask=torch.ones(1, len(read)), max_new_tokens=20, do_sample=False, pad_token_id=0
    )
    expected = tokenizer.decode(text[0, len(read) :].tolist()).rstrip("\ufffd")
    code, out = written(capsys, str(folder), "--text", "one line é", "--tokens", "20", "--json")
    assert (code, json.loads(out)["continuation"]) == (0, expected)


def test_what_is_printed_is_the_beginning_and_what_follows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = written(capsys, str(folder), "--text", "one", "--tokens", "9")
    data = json.loads(written(capsys, str(folder), "--text", "one", "--tokens", "9", "--json")[1])
    assert (code, out) == (0, f"one{data['continuation']}\n")


def test_it_stops_where_the_configuration_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (str(folder), "--text", "one", "--tokens", "12", "--json")
    free = json.loads(written(capsys, *arguments)[1])["continuation"]
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    first = Theirs.from_file(str(folder / "tokenizer.json")).encode("one").ids
    theirs: Any = GPT2LMHeadModel.from_pretrained(folder)
    stop = int(theirs(torch.tensor([first])).logits[0, -1].argmax())
    (folder / "config.json").write_text(json.dumps(config | {"eos_token_id": stop}), encoding="utf-8")
    assert free
    assert json.loads(written(capsys, *arguments)[1])["continuation"] == ""


def test_without_weights_bytes_are_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "axes\n  b: B\n  s: S\n  v: V = 256\nmodel Same(x_bs) -> y_bsv causal in s:\n  weights E_vv'\n  return E_{x_bs v'}\n"
    text = text.replace("E_{x_bs v'}", "E_{x_bs v}").replace("E_vv'", "E_v'v")
    (tmp_path / "same.ein").write_text(text, encoding="utf-8")
    one = written(capsys, str(tmp_path / "same.ein"), "--text", "aé", "--tokens", "8", "--seed", "3", "--json")
    two = written(capsys, str(tmp_path / "same.ein"), "--text", "aé", "--tokens", "8", "--seed", "3", "--json")
    assert one == two
    assert one[0] == 0


def pieces(tokens: Tokens, before: Sequence[int], after: Sequence[int]) -> list[str]:
    spelled = tokens.spelling(before)
    return [spelled(token) for token in after]


def test_a_letter_that_is_begun_waits() -> None:
    assert pieces(Bytes(), b"a", "é€😀b".encode()) == ["", "é", "", "", "€", "", "", "", "😀", "b"]
    assert pieces(Bytes(), b"", b"\xffa\xe2b") == ["\ufffd", "a", "", "\ufffdb"]
    assert Bytes().read("é") == [0xC3, 0xA9]


@functools.cache
def begun(letter: str, count: int) -> list[int]:
    """The first tokens of a letter that is no token."""
    return list(tokenizer().encode(letter).ids[:count])


PARTS = st.one_of(
    st.integers(0, 279).map(lambda token: [token]), st.builds(begun, st.sampled_from("é€😀\ufffd"), st.integers(1, 4))
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PARTS, max_size=30), st.booleans())
def test_pieces_together_are_the_whole(parts: list[list[int]], prompted: bool) -> None:
    """Letters of several tokens, tokens of several letters, bytes that are no letter: as decoded at once, but for the end."""
    before, after = begun("one équation", 99) * prompted, [token for part in parts for token in part]
    found = "".join(map(Spelling(tokenizer().decode, list(before)).add, after))
    whole = tokenizer().decode([*before, *after])[len(tokenizer().decode(before)) :]
    assert whole.startswith(found)
    assert set(whole[len(found) :]) <= {"\ufffd"}
    assert len(whole) - len(found) <= 3


def test_bytes_behind_a_token_are_a_letter() -> None:
    """Byte fallback shows each byte of a letter that is begun as a sign of its own."""
    pieces_of = {"<unk>": 0, "▁one": 1, "▁two": 2} | {f"<0x{byte:02X}>": 3 + byte for byte in range(256)}
    theirs = Theirs(models.BPE(pieces_of, [], unk_token="<unk>", byte_fallback=True))
    theirs.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    spelled = Spelling(theirs.decode, [1])
    assert [spelled.add(token) for token in (2, *(3 + byte for byte in "😀".encode()), 1)] == [" two", "", "", "", "😀", " one"]
    assert theirs.decode([2]) == "two"  # alone it has no space


def test_a_long_text_is_not_spelled_again_for_each_token() -> None:
    """So many tokens are decoded for each that comes, however many came before."""
    decoded: list[int] = []

    def watched(tokens: list[int]) -> str:
        decoded.append(len(tokens))
        return str(tokenizer().decode(tokens))

    spelled = Spelling(watched, tokenizer().encode("one équation").ids)
    after = tokenizer().encode(" one line, one équation" * 50).ids
    assert "".join(map(spelled.add, after)) == " one line, one équation" * 50
    assert len(after) == 250
    assert max(decoded[10:]) <= 6


def test_a_tokenizer_is_its_authors(folder: Path) -> None:
    found = Tokenizer(folder / "tokenizer.json")
    assert "".join(pieces(found, [], found.read("one équation"))) == "one équation"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--text", ""), "E706"),
        (("--temperature", "-1"), "E708"),
        (("--tokens", "99"), "E706"),
        (("--temperature", "1", "--top-p", "2"), "E708"),
        (("--tokens", "-1"), "E708"),
    ],
)
def test_mistakes_are_findings(folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: str) -> None:
    assert main(["generate", str(folder), "--text", "one", *arguments]) == 1
    assert code in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", "null", '{"model": {}}', b"\xff\xfe"])
def test_a_broken_tokenizer_is_a_finding(folder: Path, capsys: pytest.CaptureFixture[str], text: str | bytes) -> None:
    (folder / "tokenizer.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert main(["generate", str(folder), "--text", "one"]) == 2
    assert capsys.readouterr().err.startswith("E801")


def test_a_tokenizer_may_begin_with_a_mark(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (str(folder), "--text", "one", "--tokens", "3")
    plain, path = written(capsys, *arguments), folder / "tokenizer.json"
    path.write_text(path.read_text(encoding="utf-8"), encoding="utf-8-sig")
    assert written(capsys, *arguments) == plain


def test_weights_without_a_tokenizer_have_no_tokens(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "tokenizer.json").unlink()
    assert main(["generate", str(folder), "--text", "one"]) == 2
    assert capsys.readouterr().err.startswith("E802")


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        (None, 0),
        ([], 0),
        (-1, 0),
        (10**30, 0),
        ([0, 10**30], 0),
        ("x", 1),
        (1.5, 1),
        (True, 1),
        ({"a": 1}, 1),
        ([[1]], 1),
        ([None], 1),
    ],
)
def test_a_token_that_ends_is_a_whole_number(folder: Path, capsys: pytest.CaptureFixture[str], ends: object, code: int) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"eos_token_id": ends}), encoding="utf-8")
    assert main(["generate", str(folder), "--text", "one", "--tokens", "2"]) == code
    assert code == 0 or capsys.readouterr().err.startswith("E614")


def test_bytes_that_are_no_letters_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As Python hands over what a shell was given."""
    for target in (str(folder), "gpt2"):
        assert main(["generate", target, "--text", "one\udcff", "--set", "D=12,A=3,L=1"][: 4 if target != "gpt2" else 6]) == 2
        assert "E801 the text holds" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["loss", "unit.ein", "features.ein"])
def test_what_gives_no_next_token_is_refused(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A layer, an operator without time, a model of features."""
    monkeypatch.chdir(tmp_path)
    Path("unit.ein").write_text("axes\n  d: 3\nlayer Unit(z_d) -> z_d:\n  return z_d / 2\n", encoding="utf-8")
    model = "model Half(z_bsd) -> y_bsd causal in s:\n  return z_bsd / 2\n"
    Path("features.ein").write_text(f"axes\n  b: B\n  s: S\n  d: 3\n{model}", encoding="utf-8")
    assert main(["generate", target, "--tokens", "1"]) == 1
    assert "does not give a number for each token that may follow" in capsys.readouterr().err


def test_a_bar_shows_how_many_tokens_there_are(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the terminal, where the text goes elsewhere; else it would stand between the words."""
    arguments = ["generate", str(folder), "--text", "one", "--tokens", "3"]
    for terminal in (True, False):
        monkeypatch.setattr("sys.stderr.isatty", lambda shown=terminal: shown)
        assert main(arguments) == 0
        assert ("tokens" in capsys.readouterr().err) is terminal


def test_what_is_printed_stays_when_interrupted(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C after a token ends the command with 130, and the text so far is there."""

    def two_pieces(*_: object, **__: object) -> Any:
        yield " and"
        yield " so"
        raise KeyboardInterrupt

    monkeypatch.setattr("einformer.text.Writer.write", two_pieces)
    assert main(["generate", str(folder), "--text", "one"]) == 130
    assert capsys.readouterr().out == "one and so"
