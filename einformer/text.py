"""Which text does a model write after a beginning? Tokens of its tokenizer, or bytes where its weights are random."""

from __future__ import annotations

import codecs
import json
import pathlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from einformer.errors import fail
from einformer.objects import Model

_BYTES = 256
_UNREAD = ("*.bin", "*.pt", "*.pth", "*.gguf", "*.safetensors.index.json")  # weights in formats other than safetensors


_BEGUN = 3  # of a letter of four bytes so many may be there, each shown as one sign until the last comes


class Tokens(Protocol):
    """Text as whole numbers, and back; numbers come one by one, and some make no text before the next."""

    def read(self, text: str) -> list[int]:
        """The tokens of a text."""

    def spelling(self, before: Sequence[int]) -> Callable[[int], str]:
        """What each further token adds to the text of those before, as far as it is settled."""


class Bytes:
    """Every byte of UTF-8 is a token."""

    def read(self, text: str) -> list[int]:
        """The bytes."""
        return list(text.encode())

    def spelling(self, before: Sequence[int]) -> Callable[[int], str]:
        """The letter that a byte ends; one that is begun waits for its other bytes."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        decoder.decode(bytes(before))
        return lambda token: decoder.decode(bytes([token]))


class Tokenizer:
    """A `tokenizer.json`, by the library of its authors."""

    def __init__(self, path: pathlib.Path) -> None:
        try:
            from tokenizers import Tokenizer as Theirs
        except ImportError as error:
            raise fail("E801", f"`{path}` needs the package tokenizers", fix="`pip install einformer[text]`") from error
        self.theirs = Theirs.from_file(str(path))

    def read(self, text: str) -> list[int]:
        """As the tokenizer cuts it."""
        ids: list[int] = self.theirs.encode(text).ids
        return ids

    def spelling(self, before: Sequence[int]) -> Callable[[int], str]:
        """The letters that a token ends, spelled after those before: a space may stand between words only."""
        return Spelling(self.theirs.decode, list(before)).add


@dataclass(slots=True)
class Spelling:
    """Tokens that come one by one: only those since the last whole letter but one are spelled again."""

    decode: Callable[[list[int]], str]
    tokens: list[int]
    shown: str = ""
    known: int = 0  # so many of the tokens ended in a whole letter

    def __post_init__(self) -> None:
        self.shown, self.known = self.decode(self.tokens), len(self.tokens)

    def add(self, token: int) -> str:
        """What the next token adds."""
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
    """How many tokens, and how each is chosen."""

    tokens: int = 64
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Writer:
    """A module with weights, and what its tokens are."""

    module: Any
    tokens: Tokens
    stop: tuple[int, ...] = ()
    random: bool = False  # the weights are

    def write(self, text: str, options: Options, step: Callable[[], object] = lambda: None) -> Iterator[str]:
        """What follows on a text, piece by piece; `step` is called for each token. Raises EinformerError E703, E706 to E708."""
        read = self.tokens.read(text)
        if not read:
            raise fail("E706", "the text is empty", fix='a beginning, `--text "Once"`')
        chosen = {"temperature": options.temperature, "top_k": options.top_k, "top_p": options.top_p, "seed": options.seed}
        spelled = self.tokens.spelling(read)
        for token in self.module.follow(read, options.tokens, stop=self.stop, **chosen):
            step()
            if token in self.stop:
                return
            yield spelled(token)


def writer(model: Model, folder: pathlib.Path, seed: int = 0) -> Writer:
    """The weights and the tokenizer in a folder of transformers; else random weights, whose tokens are bytes.

    Raises EinformerError E708 for what is not causal, E801 for a tokenizer without its library, and as `load_huggingface`.
    """
    from einformer.interpreters.torch.generate import seeded, unpredicting

    if model.spec.layer.time is None:
        raise unpredicting(model.spec.layer)
    if any(folder.glob("*.safetensors")):
        module: Any = model.build().eval()
        module.load_huggingface(folder)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        ends = config.get("eos_token_id")
        stop = tuple(ends) if isinstance(ends, list) else () if ends is None else (int(ends),)
        tokenizer = folder / "tokenizer.json"
        return Writer(module, Tokenizer(tokenizer) if tokenizer.exists() else Bytes(), stop)
    if unread := [path for kind in _UNREAD for path in sorted(folder.glob(kind))]:
        raise fail("E801", f"the weights in `{unread[0]}` cannot be read", fix="the same weights as `model.safetensors`")
    return Writer(seeded(of_bytes(model).build, seed), Bytes(), random=True)


def of_bytes(model: Model) -> Model:
    """The same model with a vocabulary of bytes."""
    if "V" not in model.legend.letters or not isinstance(model.legend.values.get("V", _BYTES), int):
        return model
    return model.bind(V=_BYTES)
