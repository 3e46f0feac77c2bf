"""Does `einformer generate` write what the model says, with the tokens of its tokenizer, or bytes?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as Theirs
from tokenizers import decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, GPT2LMHeadModel

from einformer.cli import main
from einformer.text import Bytes, Tokenizer


def written(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["generate", *arguments])
    return code, capsys.readouterr().out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model of transformers with its tokenizer: what `save_pretrained` writes."""
    tokenizer = Theirs(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        ["one équation, one line"] * 9, trainers.BpeTrainer(vocab_size=280, initial_alphabet=alphabet)
    )
    sizes = {"vocab_size": tokenizer.get_vocab_size(), "n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 64}
    config: Any = AutoConfig.for_model("gpt2", **sizes, bos_token_id=None, eos_token_id=None, initializer_range=0.5)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made: Any = GPT2LMHeadModel(config)
    made.save_pretrained(tmp_path)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


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


def test_a_letter_that_is_begun_waits() -> None:
    tokens = "é€".encode()
    assert [Bytes().write(list(tokens[:end])) for end in range(6)] == ["", "", "é", "é", "é", "é€"]
    assert Bytes().read("é") == [0xC3, 0xA9]


def test_a_tokenizer_is_its_authors(folder: Path) -> None:
    tokenizer = Tokenizer(folder / "tokenizer.json")
    assert tokenizer.write(tokenizer.read("one équation")) == "one équation"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("--text", ""), "E706"), (("--temperature", "-1"), "E708"), (("--tokens", "99"), "E706"), (("--top-p", "2"), "E708")],
)
def test_mistakes_are_findings(folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: str) -> None:
    assert main(["generate", str(folder), "--text", "one", *arguments]) == 1
    assert code in capsys.readouterr().err


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
