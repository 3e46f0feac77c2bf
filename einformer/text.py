"""Generates text with a model: with its tokenizer, or with bytes as tokens if its weights are random."""

from __future__ import annotations

import codecs
import pathlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from einformer.errors import fail
from einformer.huggingface import documents
from einformer.objects import Model

_BYTES = 256
_BEGUN = 3  # of a letter of four bytes so many may be there, each shown as one sign until the last comes


class Tokens(Protocol):
    """Text as whole numbers, and back. A number may make no text before the next."""

    def read(self, text: str) -> list[int]:
        """Returns the tokens of a text."""

    def spelling(self, before: Sequence[int]) -> Callable[[int], str]:
        """Returns a function that takes the next token and returns the text that it settles."""


class Bytes:
    """Tokens that are the bytes of UTF-8."""

    def read(self, text: str) -> list[int]:
        return list(text.encode())

    # A letter waits for all of its bytes.
    def spelling(self, before: Sequence[int]) -> Callable[[int], str]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        decoder.decode(bytes(before))
        return lambda token: decoder.decode(bytes([token]))


class Tokenizer:
    """A `tokenizer.json`, read by the library of its authors."""

    def __init__(self, path: pathlib.Path) -> None:
        try:
            from tokenizers import Tokenizer as Theirs
        except ImportError as error:
            raise fail("E801", f"`{path}` needs the package tokenizers", fix="`pip install einformer[text]`") from error
        try:
            self.theirs = Theirs.from_str(path.read_text(encoding="utf-8-sig"))
        except Exception as error:  # tokenizers raises nothing more special
            raise fail("E801", f"`{path}` cannot be read: {error}", fix="a fresh copy of the file") from error

    def read(self, text: str) -> list[int]:
        ids: list[int] = self.theirs.encode(text).ids
        return ids

    # A space may stand between words only, so a token completes letters after the tokens before it.
    def spelling(self, before: Sequence[int]) -> Callable[[int], str]:
        return Spelling(self.theirs.decode, list(before)).add


@dataclass(slots=True)
class Spelling:
    """Tokens that come one by one. Only those since the last letter but one are spelled again."""

    decode: Callable[[list[int]], str]
    tokens: list[int]
    shown: str = ""
    known: int = 0  # so many of the tokens ended in a whole letter

    def __post_init__(self) -> None:
        self.shown, self.known = self.decode(self.tokens), len(self.tokens)

    def add(self, token: int) -> str:
        self.tokens.append(token)
        text = self.decode(self.tokens)
        begun = len(text) - len(text.rstrip("\ufffd"))
        piece = text[len(self.shown) : len(text) - min(begun, _BEGUN)]
        self.shown += piece
        if not begun:
            self.tokens = self.tokens[self.known :]
            self.shown, self.known = self.decode(self.tokens), len(self.tokens)
        return piece


@dataclass(frozen=True, slots=True)
class Options:
    """The number of tokens, and the way to choose each."""

    tokens: int = 64
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Writer:
    """A module with weights, and its tokens."""

    module: Any
    tokens: Tokens
    stop: tuple[int, ...] = ()
    random: bool = False  # the weights are
    encodes: bool = False  # a text, to which another one is the answer

    # Yields the continuation of a text, or the answer to it, piece by piece. `step` is called for each token. Raises
    # EinformerError E703, E706 to E708.
    def write(self, text: str, options: Options, step: Callable[[], object] = lambda: None) -> Iterator[str]:
        if not text.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise fail("E801", "the text holds bytes that are not letters", fix="a text in UTF-8")
        read = self.tokens.read(text)
        if not read:
            raise fail("E706", "the text is empty", fix='a beginning, `--text "Once"`')
        chosen = {"temperature": options.temperature, "top_k": options.top_k, "top_p": options.top_p, "seed": options.seed}
        spelled = self.tokens.spelling([] if self.encodes else read)
        for token in self.module.follow(read, options.tokens, stop=self.stop, **chosen):
            step()
            if token in self.stop:
                return
            yield spelled(token)


# Loads the weights and the tokenizer of a folder of transformers. For another target the weights are random, and bytes are
# tokens. Raises EinformerError E708 if the model is not causal, E614, E801, E802 for a folder, and as `load_huggingface`.
def make_writer(model: Model, target: pathlib.Path, seed: int = 0) -> Writer:
    from einformer.interpreters.torch.generate import build_seeded, refuse_layer

    if model.spec.layer.time is None:
        raise refuse_layer(model.spec.layer)
    if not target.is_dir():
        encodes = any(model.spec.layer.time not in formal.slots for formal in model.spec.layer.formals)
        return Writer(build_seeded(use_bytes(model).build, seed).eval(), Bytes(), random=True, encodes=encodes)
    tokens, stop = _find_tokens(model, target / "tokenizer.json"), _find_end_tokens(documents.read(target / "config.json"))
    module: Any = model.build("meta").to_empty(device="cpu").eval()  # no numbers are drawn for weights that are read
    module.load_huggingface(target)
    return Writer(module, tokens, tuple(stop))


# Without a tokenizer, bytes are the tokens of a vocabulary of bytes.
def _find_tokens(model: Model, path: pathlib.Path) -> Tokens:
    if path.exists():
        return Tokenizer(path)
    if model.legend.values.get("V") != _BYTES:
        raise fail("E802", f"there is no file `{path}`", fix="the `tokenizer.json` of these weights")
    return Bytes()


# The tokens at which a text ends.
def _find_end_tokens(config: documents.JsonObject) -> list[int]:
    ends = config.values.get("eos_token_id")
    listed: list[Any] = ends if isinstance(ends, list) else [] if ends is None else [ends]
    if not all(type(token) is int for token in listed):
        message = f"`eos_token_id` cannot be {documents.show_value(ends)}"
        raise fail("E614", message, config.span("eos_token_id"), fix="a token, a list of tokens, or `null`")
    return listed


# The vocabulary is bytes.
def use_bytes(model: Model) -> Model:
    if "V" not in model.legend.letters or not isinstance(model.legend.values.get("V", _BYTES), int):
        return model
    return model.bind(V=_BYTES)
