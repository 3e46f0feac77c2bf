"""Continues a sequence: step by step from a cache, token by token from the logits of the module."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from einformer.errors import EinformerError, fail
from einformer.interpreters.torch.cache import Cache, StaticCache
from einformer.interpreters.torch.decode import find_rows, find_timed
from einformer.language.calls import axis_of, slot_letters
from einformer.language.tree import Layer

_RESERVED = 4096  # positions for which a cache has room from the start; its stores double where there are more


@dataclass(frozen=True, slots=True)
class Sampler:
    """How the next token is chosen: the likeliest, or one drawn at a temperature among the `top_k`, or those of `top_p`."""

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise fail("E708", f"`temperature` cannot be {self.temperature}", fix="0, or a positive number")
        if self.top_k is not None and self.top_k < 1:
            raise fail("E708", f"`top_k` cannot be {self.top_k}", fix="1 or more")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise fail("E708", f"`top_p` cannot be {self.top_p}", fix="more than 0, at most 1")

    def next(self, logits_bv: Tensor, generator: torch.Generator | None) -> Tensor:
        """A token for each row."""
        if self.temperature == 0:
            return logits_bv.argmax(-1)
        logits_bv = logits_bv.to(torch.promote_types(logits_bv.dtype, torch.float32))
        below = (logits_bv - logits_bv.amax(-1, keepdim=True)).float()  # the largest is 0, at any temperature
        floats = torch.finfo(torch.float32)
        scaled = self.among(below / min(max(self.temperature, floats.tiny), floats.max))
        return torch.multinomial(scaled.softmax(-1), 1, generator=generator)[:, 0]

    # Tokens that are not to be chosen have -inf.
    def among(self, logits_bv: Tensor) -> Tensor:
        if self.top_k is not None:
            least = logits_bv.topk(min(self.top_k, logits_bv.shape[-1])).values[:, -1:]
            logits_bv = logits_bv.masked_fill(logits_bv < least, -math.inf)
        if self.top_p is not None:
            order = logits_bv.sort(descending=True, stable=True)
            share = order.values.softmax(-1)
            beyond = share.cumsum(-1) - share >= self.top_p  # the first that reaches it belongs to them
            logits_bv = logits_bv.masked_fill(beyond.scatter(-1, order.indices, beyond), -math.inf)
        return logits_bv


class Decodes:
    """The methods of the module of a causal model: it continues from a cache."""

    recipe: Any
    door: Any
    training: bool
    check: Callable[[tuple[Any, ...], tuple[Tensor, ...], dict[str, int]], None]
    meet: Callable[..., Any]
    modules: Callable[[], Iterator[nn.Module]]
    parameters: Callable[[], Iterator[nn.Parameter]]

    def cache(self, padding: Tensor | None = None, size: int = 0) -> Cache:
        """Returns an empty cache for `decode`. `padding` counts the positions at the start of each row that are not there, and
        `size` is the number of positions to come.

        Raises EinformerError E508 for a model that cannot be cached.
        """
        batch = len(find_rows(self._layer()))
        if padding is not None and batch != 1:
            raise fail("E706", "only rows of one batch axis can have different lengths", fix="no `padding`")
        module = _continue_module(self)
        return Cache(module.KEPT, padding, size, batch, module.SHARED)

    @torch.no_grad()
    def decode(self, *inputs: Tensor, cache: Cache, last: int | None = None) -> Tensor:
        """Returns the outputs at the positions of the inputs, or at the `last` of them. They follow on those in the cache.

        The cache has the new positions afterwards. What follows the last line in which positions meet, as a rule the logits, is
        computed only where it is asked for. Raises EinformerError E701 to E703, E705, E706.
        """
        self.check(tuple(map(self._open, self.door)), inputs, {})
        module, rows = self.meet(lambda: self._ready(inputs, cache, last), last, type(cache), cache.total)
        cache.asked, steady = last, isinstance(cache, StaticCache)
        if module.training != self.training:
            module.train(self.training)
        result: Tensor = (self.__dict__.get("_step", module) if steady else module)(*inputs, cache)
        cache.total += steady  # a compiled step counts in tensors
        layer = self._layer()
        cache.shape, cache.precision = rows, self._precision()
        cache.source = cache.source or tuple(inputs[k].clone() for k in _list_steady(layer))
        return cache.select_asked(result, slot_letters(layer.output).index(layer.time.letter))

    def static(self, cache: Cache, size: int) -> StaticCache:
        """Returns the content of a cache with places for `size` positions, for steps of one position that keep all shapes.

        Raises EinformerError E706 where so many positions are there already.
        """
        if not cache.longest <= cache.total <= size:
            raise fail("E706", f"the cache has seen {cache.total} positions, the size is {size}", fix="a larger size")
        tensor = next(iter((*self.parameters(), *cache.rows.values())), torch.empty(0))
        return StaticCache(cache, size, tensor.device)

    def compile_steps(self, **options: Any) -> None:
        """Compiles a step with `torch.compile` and these options. `generate` then steps with a static cache."""
        self.__dict__["_step"] = torch.compile(_continue_module(self), **{"fullgraph": True, **options})

    def stream(
        self,
        x_bs: Tensor,
        max_new_tokens: int,
        *,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        stop: Collection[int] = (),
        seed: int | None = None,
        lengths: Sequence[int] | None = None,
        source: Sequence[Tensor] = (),
    ) -> Iterator[Tensor]:
        """Yields the next token of each row, a tensor over b, until all rows have stopped. A row that has repeats its stop.

        `temperature` 0 takes the likeliest token. Another one draws with `seed`, from the `top_k` likeliest, or from the
        likeliest that hold a share `top_p` of the probability.
        Prompts of different lengths end together: of each row the last `lengths` positions are its own. `source` has the inputs
        without positions, as of an encoder, in the order of the model; they are read once.
        Raises EinformerError E701 to E703, E706 to E708.
        """
        begin = functools.partial(self._begin, x_bs, max_new_tokens, temperature, top_k, top_p, seed, lengths)
        choice, generator, cache = self.meet(begin, max_new_tokens, temperature, top_k, top_p, tuple(stop))
        stops = torch.tensor([token for token in stop if 0 <= token < 2**63], dtype=torch.int64, device=x_bs.device)
        stopped, new = torch.zeros(len(x_bs), dtype=torch.bool, device=x_bs.device), x_bs
        for _ in range(max_new_tokens):
            logits_bv = _check_finite(self.join_logits(self.decode(*self._join(new, source), cache=cache, last=1)[:, -1]))
            token_b = self.share_tokens(choice.next(logits_bv, generator).to(x_bs.dtype))
            token_b = torch.where(stopped, new[:, -1], token_b)
            yield token_b
            stopped = stopped | torch.isin(token_b.long(), stops)
            if stop and bool(stopped.all()):
                return
            new = token_b[:, None]
            if "_step" in self.__dict__ and not isinstance(cache, StaticCache):
                cache = self.static(cache, x_bs.shape[1] + max_new_tokens)

    def generate(
        self,
        x_bs: Tensor,
        max_new_tokens: int,
        *,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        stop: Collection[int] = (),
        seed: int | None = None,
        lengths: Sequence[int] | None = None,
        source: Sequence[Tensor] = (),
    ) -> Tensor:
        """Returns the prompts with their continuations, over b and at most `max_new_tokens` positions more.

        Options and errors are those of `stream`.
        """
        tokens = self.stream(
            x_bs,
            max_new_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            stop=stop,
            seed=seed,
            lengths=lengths,
            source=source,
        )
        return torch.cat([x_bs, *(token_b[:, None] for token_b in tokens)], 1)

    def follow(self, tokens: Sequence[int], max_new_tokens: int, **options: Any) -> Iterator[int]:
        """Yields the tokens after one prompt, as whole numbers of Python; options and errors are those of `stream`.

        To a model with an encoder the tokens are its source, and the target begins with token 0.
        """
        device = next(iter(self.parameters()), torch.empty(0)).device
        prompt = torch.tensor([list(tokens)], device=device)
        if _list_steady(self._layer()):
            prompt, options["source"] = torch.zeros_like(prompt[:, :1]), [prompt]
        for token_b in self.stream(prompt, max_new_tokens, **options):
            yield int(token_b)

    def log_prob(
        self,
        prompt_bs: Tensor,
        continuation_bs: Tensor,
        lengths: Sequence[int] | None = None,
        source: Sequence[Tensor] = (),
    ) -> Tensor:
        """Returns the natural logarithm of the probability of each continuation after its prompt, a tensor over b.

        Raises EinformerError E701 to E703, E706 to E708.
        """
        self._predicts()
        if not prompt_bs.shape[1] or not continuation_bs.shape[1]:
            raise fail("E706", "the prompt or its continuation is empty", fix="at least one token of each")
        whole = torch.cat([prompt_bs, continuation_bs], 1)
        cache = self.cache(_find_padding(prompt_bs, lengths))
        inputs = self._join(whole[:, :-1], source)
        logits = _check_finite(self.join_logits(self.decode(*inputs, cache=cache, last=continuation_bs.shape[1])))
        logarithms = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
        return logarithms.gather(-1, continuation_bs[..., None].long())[..., 0].sum(-1)

    def perplexity(self, x_bs: Tensor, source: Sequence[Tensor] = ()) -> Tensor:
        """Returns the perplexity of each row after its first token, over b. Raises EinformerError as `log_prob` does."""
        return (-self.log_prob(x_bs[:, :1], x_bs[:, 1:], source=source) / (x_bs.shape[1] - 1)).exp()

    # -------------------------------------------------------------------------------------------------------- ranks

    # The ranks of a mesh may have some tokens each.
    def join_logits(self, logits: Tensor) -> Tensor:
        return logits

    # The first of the ranks that have the same rows decides.
    def share_tokens(self, token_b: Tensor) -> Tensor:
        return token_b

    # ------------------------------------------------------------------------------------------------------- checks

    def _layer(self) -> Any:
        return next(layer for layer in self.recipe.spec.layers if layer.name == self.recipe.name)

    def _open(self, expected: Any) -> Any:
        time = self._layer().time.letter
        axes = (
            (letter, None, bound or size) if letter == time else (letter, size, bound) for letter, size, bound in expected.axes
        )
        return replace(expected, axes=tuple(axes))

    def _precision(self) -> str:
        weight = next(iter(self.parameters()), torch.empty(0))
        kind = weight.device.type
        cast = f" under autocast to {torch.get_autocast_dtype(kind)}" if torch.is_autocast_enabled(kind) else ""
        return f"{weight.dtype} on {weight.device}{cast}"

    def _predicts(self) -> None:
        layer = self._layer()
        expected, output = self.door[find_timed(layer)], slot_letters(layer.output)
        tokens = expected.selects[0] if expected.selects else ""
        several = len(_list_steady(layer)) < len(self.door) - 1 or len(find_rows(layer)) != 1
        if several or len(output) != 3 or axis_of(output[-1]) != axis_of(tokens):
            raise refuse_layer(layer)

    def _join(self, tokens: Tensor, source: Sequence[Tensor]) -> list[Tensor]:
        timed = find_timed(self._layer())
        return [*source[:timed], tokens, *source[timed:]]

    def _begin(
        self,
        x_bs: Tensor,
        max_new_tokens: int,
        temperature: float,
        top_k: int | None,
        top_p: float | None,
        seed: int | None,
        lengths: Sequence[int] | None,
    ) -> tuple[Sampler, torch.Generator | None, Cache]:
        choice = Sampler(temperature, top_k, top_p)
        self._predicts()
        if max_new_tokens < 0:
            raise fail("E708", f"`max_new_tokens` cannot be {max_new_tokens}", fix="0 or more")
        generator = None if seed is None else torch.Generator(x_bs.device).manual_seed(_check_seed(seed))
        return choice, generator, self.cache(_find_padding(x_bs, lengths), x_bs.shape[1] + min(max_new_tokens, _RESERVED))

    def _ready(self, inputs: Sequence[Tensor], cache: Cache, last: int | None) -> tuple[Any, tuple[int, ...]]:
        module = _continue_module(self)
        if last is not None and last < 1:
            raise fail("E706", f"`last` cannot be {last}", fix="1 or more")
        return module, self._fits(inputs, cache, module)

    def _fits(self, inputs: Sequence[Tensor], cache: Cache, module: Any) -> tuple[int, ...]:
        batch, first = len(find_rows(self._layer())), find_timed(self._layer())
        new, bound = inputs[first].shape[batch], self._open(self.door[first]).axes[batch][2]
        if isinstance(cache, StaticCache) and (new != 1 or cache.total == cache.size):
            message = f"a static cache takes one position at a time, {cache.size} in all"
            facts = (f"the cache has seen {cache.total}", f"here are {new} more")
            raise fail("E706", message, facts=facts, fix="one position, or `module.static(cache, size)` with a larger size")
        if not new:
            raise fail("E706", "there is no new position", fix="at least one token")
        if bound is not None and cache.total + new > bound:
            facts = (f"the cache has seen {cache.total}", f"here are {new} more")
            raise fail("E706", f"there are only {bound} positions", facts=facts, fix="a shorter sequence, or another model")
        if cache.kept is not module.KEPT:
            raise fail("E705", "this cache is another module's", fix="`module.cache()`")
        steady = [inputs[k] for k in _list_steady(self._layer())]
        if cache.source and not all(map(torch.equal, cache.source, steady)):
            message = "this cache has seen other numbers in the inputs without positions"
            raise fail("E705", message, fix="the same in every call, or `module.cache()`")
        rows = tuple(inputs[first].shape[:batch])
        theirs = cache.shape or (rows if cache.padding is None else tuple(cache.padding.shape))
        if theirs != rows:
            raise fail("E705", f"this cache has rows {theirs}, the inputs {rows}", fix="the same rows in every call")
        if cache.precision not in ("", self._precision()):
            message = f"this cache was filled in {cache.precision}, and the module computes in {self._precision()}"
            raise fail("E705", message, fix="`module.cache()` after `module.to(…)`, and one `torch.autocast` around all calls")
        return rows


def _list_steady(layer: Layer) -> list[int]:
    return [k for k, formal in enumerate(layer.formals) if layer.time not in formal.slots]


def refuse_layer(layer: Layer) -> EinformerError:
    message = f"`{layer.name}` does not give a number for each token that may follow"
    return fail("E708", message, layer.span, fix="a model of tokens, `model Name(x_bs) -> y_bsv causal in s:`")


# A module whose random weights are those of a seed. Raises EinformerError E708.
def build_seeded(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(_check_seed(seed))
        return build()


def _check_seed(seed: int) -> int:
    if not 0 <= seed < 2**63:
        raise fail("E708", f"`seed` cannot be {seed}", fix="a whole number from 0, less than 2^63")
    return seed


def _find_padding(x_bs: Tensor, lengths: Sequence[int] | None) -> Tensor | None:
    if x_bs.dim() > 1 and not x_bs.shape[1]:
        raise fail("E706", "the prompt is empty", fix="at least one token")
    if lengths is None or all(length == x_bs.shape[1] for length in lengths):
        return None
    if len(lengths) != len(x_bs) or not all(1 <= length <= x_bs.shape[1] for length in lengths):
        message = f"the lengths {list(lengths)} are not those of {len(x_bs)} prompts of at most {x_bs.shape[1]} tokens"
        raise fail("E706", message, fix="for each row how many tokens it has, at least 1")
    return torch.tensor([x_bs.shape[1] - length for length in lengths], device=x_bs.device)


def _check_finite(logits: Tensor) -> Tensor:
    if not bool(torch.isfinite(logits.amax(-1)).all()):
        raise fail("E707", "the logits are not numbers (NaN, inf)", fix="weights that are finite; a dtype with a larger range")
    return logits


def _continue_module(module: Any) -> Any:
    twin = module.__dict__.get("_continued")
    if twin is None:
        from einformer.interpreters.torch.module import continue_module

        twin = continue_module(module)
        module.__dict__["_continued"] = twin
    return twin
