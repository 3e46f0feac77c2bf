"""Defines the public objects: a `Specification` is a checked text, and a `Model` is a specification with bound sizes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

from einformer.errors import EinformerError, Source, check_name, fail, find_row
from einformer.interpreters.count.conventions import CONVENTIONS, PRECISIONS, find_dtype
from einformer.interpreters.torch.plan import Initialisation, Style
from einformer.language import binding, parser
from einformer.language import weights as placed
from einformer.language.calls import slot_letters
from einformer.language.sizes import Legend
from einformer.language.specialise import specialise
from einformer.language.tree import Layer, Name, Spec
from einformer.program.causality import check_spec

if TYPE_CHECKING:
    import numpy as np
    import sympy
    import torch
    from numpy.typing import ArrayLike, NDArray
    from torch.distributed.device_mesh import DeviceMesh

    from einformer.huggingface.tensors import HuggingFaceWeights
    from einformer.interpreters.count.conventions import Convention, Precision
    from einformer.interpreters.count.exchanges import Exchange
    from einformer.interpreters.count.rules import CacheBytes, Memory, N, Phase, Recompute, Sizes
    from einformer.interpreters.count.table import Summary
    from einformer.interpreters.diagram import Drawing
    from einformer.interpreters.torch import measure as torch_measure
    from einformer.interpreters.torch.generate import Decodes
    from einformer.interpreters.torch.module import Recipe, _Door
    from einformer.interpreters.torch.plan import Plan
    from einformer.language.difference import Difference
    from einformer.program.keeping import Entry
    from einformer.program.operations import Function
    from einformer.program.sharding import Sharding

    class Module(_Door, Decodes, HuggingFaceWeights):
        """The type of a built module: `nn.Module` with the methods of a causal model and of one `from_huggingface`.

        The module of a single layer has neither, that of a text with its own sizes only those of a causal model.
        """


__all__ = ["Model", "Specification"]

F = TypeVar("F", bound=Callable[..., Any])
_GPT2 = Initialisation("gpt2", 0.02)


# The style of a file whose notes name our documents.
def _style(annotations: bool = False, check: bool = False, ascii: bool = False) -> Style:
    from einformer.notes import sources

    return Style(annotations, check, ascii, sources.read_note, sources.list_sources)


# Attributes of the two objects for our own modules, which `dir` does not list.
_INTERNAL = {"at", "layer", "legend", "tree", "written"}
_MEASURED = ("fast", "notation")  # plans that run backward on a CPU


@dataclass(frozen=True, slots=True)
class Origin:
    """The family of transformers that a model came from, its config, and how its weights start.

    `part` describes it if it is a part of a larger model, whose `others` are not counted.
    """

    family: str = ""
    config: Mapping[str, object] = field(default_factory=dict)
    initialisation: Initialisation = _GPT2
    part: str = ""
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Specification:
    """A checked text, seen as the operator `name`: its model, or one of its layers (`spec["MLP"]`).

    >>> load("gpt2")
    <specification GPT2: pre-norm decoder with learned positions>
    """

    written: Spec  # as its author wrote it, with the layers of the library that it calls
    tree: Spec  # elaborated: every sum explicit, every instance named
    name: str

    def __dir__(self) -> list[str]:
        return [name for name in object.__dir__(self) if name not in _INTERNAL]

    @property
    def title(self) -> str:
        """Returns the first comment of the file."""
        return self.tree.title

    @property
    def layers(self) -> list[str]:
        """Returns the names of the layers, in the order of the text."""
        return [layer.name for layer in self.tree.layers]

    @property
    def layer(self) -> Layer:
        """Returns the tree of the operator itself."""
        return next(layer for layer in self.tree.layers if layer.name == self.name)

    def __getitem__(self, name: str) -> Specification:
        if name not in self.layers:
            raise fail("E204", f"no layer `{name}` is defined", self.tree.span, [f"there are {', '.join(self.layers)}"])
        return replace(self, name=name)

    def __str__(self) -> str:
        from einformer.language import printer

        return printer.show(self.written)

    def __repr__(self) -> str:
        return f"<specification {self._head}>"

    @property
    def _head(self) -> str:
        return f"{self.name}: {self.title.partition('.ein: ')[2] or self.title}".removesuffix(": ")

    def _repr_latex_(self) -> str:
        from einformer.notes.rendering import print_latex

        layer = None if self.name == self.tree.layers[-1].name else self.name
        return f"$$\n{print_latex(self.written, 'ours', None, layer)}\n$$"

    def _repr_html_(self) -> str:
        import html  # for notebooks alone

        return f"<p><b>{html.escape(self._head)}</b></p>\n{html.escape(self._repr_latex_(), quote=False)}"

    @property
    def parameters(self) -> sympy.Expr:
        """Returns the number of parameters, as a formula in the letters of the legend."""
        from einformer.interpreters.count import rules, symbols

        return symbols.sum_trained(rules.count_weights(self.tree, self.name, symbols.Symbols.of(self.tree)))

    def flops(self, convention: str = "torch") -> sympy.Expr:
        """Returns the FLOPs of a forward pass, as a formula in the letters of the legend. Raises EinformerError E605, E607."""
        from einformer.interpreters.count import rules, symbols

        chosen = find_row(CONVENTIONS, "convention", convention)
        return symbols.sum_counts(rules.count_flops(self.tree, self.name, symbols.Symbols.of(self.tree), chosen))

    def cache_bytes(self, precision: str | torch.dtype | None = None) -> CacheBytes[sympy.Expr]:
        """Returns the bytes of the cache of decoding, `per_token` of a row and in `total`, as formulas. `p` is the size of
        a number in this `precision`.

        >>> load("gpt2").cache_bytes().total
        2*B*D*L*S*p

        Raises EinformerError E508 if there is no cache, E605, E607 if it has no formula.
        """
        from einformer.interpreters.count import rules, symbols

        element = None if precision is None else rules.count_element(precision)
        return symbols.count_cache(self.tree, self.name, symbols.Symbols.of(self.tree), element)

    def latex(self, letters: str = "ours", form: str | None = None) -> str:
        """Returns the LaTeX of the text, in the `letters` of a document, in indices, which `parse` reads back, or in
        matrices; or its MathML, which browsers show without a script and read aloud.

        `form` is `index`, `matrix` or `mathml`, by default the form of the document. Raises EinformerError E605.
        """
        from einformer.notes.rendering import print_latex

        return print_latex(self.written, letters, form)

    def draw(self, width: int = 1600) -> Drawing:
        """Returns an SVG of its equations and of the layers that it calls, side by side in at most so many pixels.

        Of one layer: `spec["MLP"].draw()`. A notebook shows it as a picture.
        """
        from einformer.interpreters import diagram

        return diagram.draw(self.written, self.tree, self.name, Legend.of(self.tree), width)

    def without(self, *weights: str) -> Specification:
        """Returns the specification without some of its optional weights, `"CausalAttention.α"`. A weight with a default
        is tied to it.

        Raises EinformerError E605.
        """
        return self._rewritten(binding.leave_out(self.written, weights))

    def replace(self, scalars: str) -> Specification:
        """Returns the specification with scalars replaced or added by the lines of a `scalars` block (rope scaling, R8)."""
        written, findings = parser.parse_scalars(Source("<scalars>", scalars), self.written)
        if findings:
            raise EinformerError(findings)
        return self._rewritten(written)

    def _rewritten(self, written: Spec, legend: Legend | None = None) -> Specification:
        """Checks another text. Bound sizes stay numbers."""
        values, origins = (binding.find_sizes(legend), legend.origins) if legend else (None, None)
        tree, findings = check_spec(written, values=values, origins=origins)
        if findings:
            raise EinformerError(findings)
        return replace(self, written=written, tree=tree)

    def diff(self, other: Specification) -> Difference:
        """Returns the differences from another text, line by line. Renamed letters are not a difference.

        >>> print(load("llama").diff(load("mistral")))  # doctest: +ELLIPSIS
        Θ: 500000 → 10000
        ...
        model Llama → Mistral
        -   m_ss' = where(s' <= s, 0, -inf)
        +   m_ss' = where(s - W < s' <= s, 0, -inf)
                          ^^^^^^^
        """
        from einformer.language.difference import difference

        return difference(self.written, other.written)

    def bind(self, **values: binding.Given) -> Model:
        """Returns the model with these sizes and scalars. Axes of the inputs may stay open.

        >>> load("gpt2").bind(D=12, A=3, L=2, V=11, K=8).size("H")
        4

        Raises EinformerError E602 to E606, E308.
        """
        return bind_from(self, values, "given")


def bind_from(spec: Specification, values: Mapping[str, binding.Given], origin: str | Mapping[str, str]) -> Model:
    """Binds sizes like `Specification.bind`, with their origin for messages."""
    written, legend = binding.bind(spec.written, values, origin)
    return Model(spec._rewritten(written, legend), legend)


def find_ties(stages: Sequence[Model]) -> dict[str, int]:
    """Returns the weights that several stages have, each with the first of these."""
    from einformer.language.weights import key, list_stored

    places = [(key(weight.name), number) for number, stage in enumerate(stages) for weight in list_stored(stage.spec.layer)]
    first = dict(reversed(places))
    return {name: first[name] for name, number in places if number > first[name]}


# A method that names all missing sizes instead of the first.
def _naming_all_missing(method: F) -> F:
    @functools.wraps(method)
    def naming(model: Model, /, *arguments: Any, **named: Any) -> Any:
        try:
            return method(model, *arguments, **named)
        except EinformerError as error:
            if error.findings[0].code == "E601":
                refuse_missing(model)
            raise

    return cast("F", naming)


@dataclass(frozen=True, slots=True, repr=False)
class Model:
    """A specification with bound sizes.

    >>> load("gpt2").bind(D=12, A=3, L=2, V=11, K=8)
    <model GPT2: D=12, A=3, L=2, V=11, K=8>
    """

    spec: Specification
    legend: Legend
    _origin: Origin = Origin()
    _written: dict[tuple[str, Plan, Style], str] = field(default_factory=dict, compare=False)  # files that modules are made of

    def __dir__(self) -> list[str]:
        return [name for name in object.__dir__(self) if name not in _INTERNAL]

    def __repr__(self) -> str:
        sizes = ", ".join(f"{letter}={size}" for letter, size in self.legend.values.items())
        return f"<model {self.spec.name}: {sizes}>".replace(": >", ">")

    def _repr_latex_(self) -> str:
        return self.spec._repr_latex_()

    def _repr_html_(self) -> str:
        sizes = "".join(f"<tr><td>{letter}</td><td>{size:,}</td></tr>" for letter, size in self.legend.values.items())
        return self.spec._repr_html_().replace("</p>", f"</p>\n<table>{sizes}</table>", 1)

    def bind(self, **values: binding.Given) -> Model:
        """Returns the model with some sizes and scalars replaced. A model of a config leaves its family.

        Raises EinformerError E602 to E606, E308.
        """
        origins = {**self.legend.origins, **dict.fromkeys(values, "given")}
        model = bind_from(self.spec, {**self.legend.values, **values}, origins)
        return replace(model, _origin=replace(self._origin, family="", config={}) if self._origin.config else self._origin)

    def stage(self, number: int, count: int, letter: str = "l") -> Model:
        """Returns a stage of a pipeline, counted from 0: a model with some turns of the loop over `letter`.

        >>> import einformer
        >>> einformer.load("gpt2").bind(D=12, A=3, L=4, V=11, K=8).stage(1, 2).num_parameters
        3924

        Raises EinformerError E741, E742.
        """
        from einformer.language.stages import cut_stage, make_stage

        tree, name = self.spec.tree, self.spec.name
        cut = cut_stage(tree, name, self.legend, make_stage(self.spec.layer, self.legend, letter, number, count))
        sizes = {axis.size.name for axis in tree.axes if axis.letter == letter and isinstance(axis.size, Name)}
        values = {size: value for size, value in self.legend.values.items() if size not in sizes}
        stage = bind_from(replace(self.spec, written=cut), values, self.legend.origins)
        return replace(stage, _origin=Origin(initialisation=self._origin.initialisation))

    def diff(self, other: Model) -> Difference:
        """Returns the differences from another model: sizes, scalars, and lines of their texts."""
        from einformer.language.difference import difference

        return difference(self.spec.written, other.spec.written, (self.legend, other.legend))

    def draw(self, width: int = 1600) -> Drawing:
        """Returns an SVG of its equations, as that of a specification, with its sizes as the shapes."""
        from einformer.interpreters import diagram

        return diagram.draw(self.spec.written, self.spec.tree, self.spec.name, self.legend, width)

    def draw_masks(self, width: int = 1600) -> Drawing:
        """Returns an SVG of the masks that positions decide alone: a row is a position, its cells those that it sees.

        Masks whose sizes are open, or which data decide, are left out.
        """
        from einformer.interpreters import diagram

        return diagram.draw_masks(self.spec.tree, self.legend, width)

    def draw_placement(self, mesh: str | Mapping[str, int], shard: str, width: int = 1600) -> Drawing:
        """Returns an SVG of what each device of a mesh holds of every weight and value, by a map of letters.

        `model.draw_placement("dp=2,tp=2", "tp: g f v; dp: b")` shows four devices, and eight of more. Raises EinformerError
        E741 to E744.
        """
        from einformer.interpreters import diagram

        _, sharding = self._at({}, mesh, shard)
        functions = self._lower_for_rank(sharding, "notation")
        return diagram.draw_placement(self.spec.written, functions, self.spec.name, sharding, width)

    def size(self, letter: str) -> int:
        """Returns the number of a size letter. Raises EinformerError E601."""
        return binding.size(self.legend, letter)

    @property
    @_naming_all_missing
    def num_parameters(self) -> int:
        """Returns the number of trained parameters. Tied weights count once."""
        from einformer.interpreters.count import numbers, rules

        return rules.sum_trained(rules.count_weights(self.spec.tree, self.spec.name, numbers.Numbers(self.legend)))

    @property
    @_naming_all_missing
    def parameter_counts(self) -> dict[str, int]:
        """Returns counts of trained parameters: `total`, `embedding`, `non_embedding`, and `active` for one token (sparse
        layers).
        """
        from einformer.interpreters.count import numbers, rules

        return rules.break_down(rules.count_weights(self.spec.tree, self.spec.name, numbers.Numbers(self.legend)))

    @_naming_all_missing
    def flops(
        self,
        *,
        convention: str = "torch",
        phase: Phase = "forward",
        recompute: Recompute = "none",
        cached: int = 0,
        **sizes: int,
    ) -> int:
        """Returns the FLOPs of a phase at these sizes of its inputs, exactly: `flops(B=1, S=1024)`.

        `convention` is a row of `einformer.interpreters.count.conventions`: "torch" counts 2 for each multiply-accumulate
        of matrix products, and full S × S for any mask. "exact" counts only the pairs of positions that a mask allows.
        `phase` is "forward", "backward" or "training". Training recomputes nothing, the core of attention ("selective") or
        each block ("full"). `cached` positions come before the S new ones. Raises EinformerError E601, E603 to E605.
        """
        from einformer.interpreters.count import numbers, rules

        chosen = find_row(CONVENTIONS, "convention", convention)
        check_name(get_args(rules.Phase), "phase", phase)
        check_name(get_args(rules.Recompute), "recomputation", recompute)
        bound_sizes = numbers.Numbers(self.at(**sizes), cached=cached)
        counts = rules.count_flops(self.spec.tree, self.spec.name, bound_sizes, chosen)
        return sum(count.spent(phase, recompute) for count in counts)

    @_naming_all_missing
    def memory(
        self,
        *,
        precision: str = "bfloat16",
        recompute: Recompute = "none",
        mesh: str | Mapping[str, int] = "",
        shard: str = "",
        zero: int = 0,
        microbatches: int = 1,
        **sizes: int,
    ) -> Memory[int]:
        """Returns the bytes of a training step with Adam on one device, by component: `memory(B=8, S=1024).total`.

        Activations follow the rules of Korthikanti et al. 2022. Over a `mesh`, `dp=8,tp=4`, with a map of letters to its
        axes, `tp: a d' f; dp: b`, they are those of each device, and `sizes` those of all devices together. An axis of the
        mesh divides a tensor once: with `tp: a d' f (s)` the positions of what has no heads (sequence parallel). ZeRO of stage
        `zero` shares state between the devices that share the batch. With `pp: l` they are those of the fullest stage of the
        pipeline, through which so many `microbatches` pass, by the schedule 1F1B. Raises EinformerError E601, E603 to E605,
        E741 to E744.
        """
        from einformer.interpreters.count import numbers, rules
        from einformer.interpreters.count.exchanges import refuse_microbatches, split_batch
        from einformer.program.sharding import refuse_zero

        chosen = find_row(PRECISIONS, "precision", precision)
        check_name(get_args(rules.Recompute), "recomputation", recompute)
        sharding = self._at(sizes, mesh, shard, stages=True)[1]
        place = self._find_pipeline(sharding)
        refuse_microbatches(microbatches, None, place is not None)
        stages, rest = self._list_stages(sharding) or [self], sharding.without(place) if place else sharding
        if place and zero:
            refuse_zero(2 if zero == 1 else zero, rest, find_ties(stages))
        held = [
            numbers.count_training(
                stage.spec.tree,
                self.spec.name,
                split_batch(self.spec.layer, stage.at(**sizes), microbatches, rest),
                chosen,
                recompute,
                rest,
                zero,
                numbers.count_kept(microbatches, len(stages), number),
                self.spec.tree if number + 1 == len(stages) else stage.spec.tree,
            )
            for number, stage in enumerate(stages)
        ]
        return max(held, key=lambda memory: memory.total)

    @_naming_all_missing
    def summary(
        self, *, convention: str = "torch", precision: str = "bfloat16", recompute: Recompute = "none", **sizes: int
    ) -> Summary:
        """Returns all of these numbers at these sizes, as `einformer count` prints them."""
        from einformer.interpreters.count import table

        single = self.at(**sizes | {"S": 1}) if "S" in sizes and self.spec.layer.time else None
        chosen = choose_rows(convention, precision)
        cache = self._cache(precision, sizes)
        summary = table.summarise(self.spec.tree, self.spec.name, self.at(**sizes), single, *chosen, recompute, cache)
        return replace(summary, not_counted=self._origin.others)

    # None if the model cannot be decoded step by step.
    def _cache(self, precision: str, sizes: dict[str, int]) -> tuple[int, int] | None:
        try:
            cache = self.cache_bytes(precision, **sizes)
        except EinformerError as error:
            if error.findings[0].code != "E508":
                raise
            return None
        return cache.per_token, cache.total

    @_naming_all_missing
    def exchanges(
        self,
        mesh: str | Mapping[str, int],
        shard: str,
        plan: str = "fast",
        zero: int | None = None,
        microbatches: int = 1,
        **sizes: int,
    ) -> tuple[Exchange[int], ...]:
        """Returns the collectives of a training step on each rank of a mesh, by layer: how often, over how many numbers.

        `sizes` are those of all ranks together. With a stage of `zero`, 0 to 3, what ranks of the batch exchange of weights and
        their gradients is among them, all weights together. With `pp: l` there are rows for each stage of the pipeline, through
        which so many `microbatches` pass. Raises EinformerError E601, E603 to E605, E741 to E744.
        """
        from einformer.interpreters.count.exchanges import refuse_microbatches, split_batch
        from einformer.interpreters.count.numbers import Numbers
        from einformer.program.sharding import refuse_zero

        sharding = self._at(sizes, mesh, shard, stages=True)[1]
        if zero is not None:
            refuse_zero(2 if zero == 1 else zero, sharding)  # of the first stage the optimiser alone shares state

        refuse_microbatches(microbatches, zero, self._find_pipeline(sharding) is not None)

        def size(stage: Model) -> Numbers:
            return Numbers(split_batch(self.spec.layer, stage.at(**sizes), microbatches, sharding))

        return self._list_exchanges(sharding, plan, size, dict(sharding.mesh), zero, microbatches)

    def exchange_formulas(
        self, mesh: str | Mapping[str, int], shard: str, plan: str = "fast", microbatches: int = 1
    ) -> tuple[Exchange[sympy.Expr], ...]:
        """Returns the same as formulas in the letters of the legend, and of the names of the axes of the mesh.

        >>> gpt2 = load("gpt2").bind(D=12, A=2, L=2, V=10, K=8)
        >>> [(row.collective, row.times, row.numbers) for row in gpt2.exchange_formulas("tp=2", "tp: f")]
        [('all-reduce', L, B*D*S), ('all-reduce', L, B*D*S)]

        Raises EinformerError E607, E741 to E744.
        """
        from einformer.interpreters.count.exchanges import refuse_microbatches, split_batch
        from einformer.interpreters.count.symbols import Symbols, name_ranks

        sharding = self._at({}, mesh, shard, stages=True)[1]
        ranks, whole, place = name_ranks(sharding), Symbols(self.legend), self._find_pipeline(sharding)
        loops = {place[0]: whole.length(place[0]) / ranks[place[1]]} if place else {}
        refuse_microbatches(microbatches, None, place is not None)

        def size(stage: Model) -> Symbols:
            return Symbols(split_batch(self.spec.layer, stage.legend, microbatches), loops=loops)

        return self._list_exchanges(sharding, plan, size, ranks, None, microbatches)

    def _list_exchanges(
        self,
        sharding: Sharding,
        plan: str,
        size: Callable[[Model], Sizes[N]],
        ranks: Mapping[str, N],
        zero: int | None,
        microbatches: int,
    ) -> tuple[Exchange[N], ...]:
        from einformer.interpreters.count.exchanges import Pipeline, RankModel, list_step

        place = self._find_pipeline(sharding)
        rest = sharding.without(place) if place else sharding
        models, name = self._list_stages(sharding) or [self], self.spec.name
        stages = [RankModel(m.spec.tree, name, m._lower_for_rank(rest, plan), size(m)) for m in models]
        pipeline = Pipeline(place[1], microbatches, find_ties(models)) if place else None
        return tuple(list_step(stages, rest, ranks, zero, pipeline))

    # The functions of each rank of a mesh.
    def _lower_for_rank(self, sharding: Sharding, plan: str = "fast") -> dict[str, Function]:
        from einformer.interpreters.torch.plan import PLANS
        from einformer.program.fusing import lower_for_plan
        from einformer.program.lowering import lower_functions

        special, name, row = specialise(self.spec.tree, self.spec.name), self.spec.name, find_row(PLANS, "plan", plan)
        functions = lower_functions(special, self.legend)
        return lower_for_plan(functions, special, name, self.legend, sharding, row.fast, flex=row.flex)

    def saved(
        self, plan: str = "fast", precision: str | torch.dtype = "bfloat16", training: bool = True, **sizes: int
    ) -> tuple[torch_measure.Kept, ...]:
        """Returns the bytes that PyTorch saves for the backward pass of the emitted module, by line, equation and
        operation.

        They equal torch's own numbers on a CPU, to the byte, and exceed those of `memory`. Raises EinformerError E601, E603
        to E605.
        """
        from einformer.interpreters.torch import measure

        check_name(_MEASURED, "plan whose bytes are known", plan)
        return measure.measure_saved(self.source(plan), self.spec.name, self._inputs(sizes), find_dtype(precision), training)

    def peak(self, plan: str = "fast", precision: str | torch.dtype = "bfloat16", **sizes: int) -> torch_measure.Peak:
        """Returns the bytes of a training step of the emitted module with AdamW, at the peak of each of its parts.

        Raises EinformerError as `saved` does.
        """
        from einformer.interpreters.torch import measure

        check_name(_MEASURED, "plan whose bytes are known", plan)
        return measure.measure_peak(self.source(plan), self.spec.name, self._inputs(sizes), find_dtype(precision))

    def _inputs(self, sizes: dict[str, int]) -> list[tuple[tuple[int, ...], bool]]:
        from einformer.language.slots import Whole

        bound_legend, layers = self.at(**sizes), {layer.name: layer for layer in self.spec.tree.layers}
        whole, formals = Whole(self.spec.layer, layers, bound_legend).selecting, self.spec.layer.formals
        return [(tuple(map(bound_legend.length, slot_letters(formal))), formal.name in whole) for formal in formals]

    @_naming_all_missing
    def cache_bytes(self, precision: str | torch.dtype = "bfloat16", **sizes: int) -> CacheBytes[int]:
        """Returns the bytes of the cache of decoding at these sizes of the inputs: for each further token of a row, and in
        total.

        >>> load("gpt2").bind(D=768, A=12, L=12, V=50257, K=1024).cache_bytes(B=1, S=1024).per_token
        36864

        The cache is derived from the equations. Raises EinformerError E508, E601, E603 to E605.
        """
        from einformer.interpreters.count import rules
        from einformer.interpreters.count.numbers import Numbers

        bound_legend, kept = self.at(**sizes), self.kept
        assert self.spec.layer.time is not None
        time = self.spec.layer.time.letter
        return rules.count_cache(kept, Numbers(bound_legend, time), rules.count_element(precision))

    @property
    def kept(self) -> tuple[Entry[int], ...]:
        """Returns the tensors in the cache of decoding, with the number of positions of each. Raises EinformerError E508."""
        from einformer.program import keeping  # nobody waits for it who only checks

        return keeping.kept(self.spec.tree, self.spec.name, self.legend)

    @property
    def open(self) -> set[str]:
        """Returns the letters of sizes that are not bound: those of the inputs, as a rule `B` and `S`."""
        return binding.open_sizes(self.legend)

    def inputs(self, batch: int = 1, length: int | None = None) -> dict[str, int]:
        """Returns sizes for `B` and `S` if they are open. `S` is the longest that is allowed, or 1024."""
        return binding.usual_sizes(self.legend, batch, length)

    def at(self, **sizes: int) -> Legend:
        """Returns the legend with the open sizes of the inputs. Raises EinformerError E603 to E605."""
        return binding.bind_sizes(self.spec.tree, self.legend, sizes)

    @_naming_all_missing
    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Returns the shape of every weight and buffer by path, `blocks.0.MLP.W`, with optional weights, without ties."""
        return {path: weight.shape for path, weight in placed.weights(self.spec.tree, self.spec.layer, self.legend).items()}

    def source(
        self,
        plan: str = "fast",
        annotations: bool = False,
        check: bool = False,
        ascii: bool = False,
        mesh: str | Mapping[str, int] = "",
        shard: str = "",
        recompute: str = "none",
    ) -> str:
        """Returns the file of PyTorch that `build` compiles, by the plan `fast`, `flex` or `notation`. It needs torch alone.

        By `flex` attention whose masks or scores are more than causal calls FlexAttention, which a GPU runs, compiled.
        With `recompute="full"` the turns of loops keep their inputs alone, and are computed again in the backward pass.

        `annotations` annotates its tensors for jaxtyping, `Float[Tensor, "b s d"]`. With `check`, jaxtyping and beartype
        check every call of its classes and functions, with the sizes of its `Config`. `ascii` spells names in ASCII,
        `gamma` for `γ`, also those of weights. With a `mesh`, `dp=2,tp=4`, and a map of letters to its axes,
        `tp: g f v; dp: b`, it is the file of each rank. A letter in brackets, `tp: g f v (s)`, is split between sublayers.
        Raises EinformerError E605, E741 to E744.
        """
        from einformer.interpreters.torch import source

        chosen = replace(self._plan(plan, recompute=recompute), sharding=self._shard(mesh, shard))
        return source.write_source(self.spec.tree, self.spec.name, self.legend, chosen, _style(annotations, check, ascii))

    def cached_source(
        self,
        plan: str = "fast",
        annotations: bool = False,
        check: bool = False,
        ascii: bool = False,
        mesh: str | Mapping[str, int] = "",
        shard: str = "",
    ) -> str:
        """Returns the file of PyTorch for decoding: its forwards take a cache. With a `mesh` it is the file of each rank.

        Raises EinformerError E508, E741 to E744.
        """
        from einformer.interpreters.torch import decode

        style, chosen = _style(annotations, check, ascii), replace(self._plan(plan), sharding=self._shard(mesh, shard))
        return decode.write_cached_source(self.spec.tree, self.spec.name, self.legend, chosen, self.kept, style)

    def build(
        self,
        device: str = "cpu",
        dtype: torch.dtype | None = None,
        plan: str = "fast",
        initialisation: str | None = None,
        check: str | None = None,
        mesh: DeviceMesh | str | Mapping[str, int] | None = None,
        shard: str = "",
        zero: int = 0,
        recompute: str = "none",
    ) -> Module:
        """Returns the `nn.Module` with new random weights, in training mode, in float32 by default.

        Its inputs have their axes in the order of their letters. Wrong inputs raise EinformerError E701 to E703. All plans
        have the same state-dict keys and shapes, those of `weight_shapes`. A model `from_huggingface` has
        `load_huggingface`, `to_huggingface` and `save_huggingface`. With `check="beartype"` jaxtyping and beartype check
        every call inside too, as in `source(check=True)`. `recompute` is that of `source`.

        With a `mesh` and a map of letters to its axes, `tp: g f v; dp: b`, it is the module of this rank. The mesh is a
        `DeviceMesh` whose axes have names, or `dp=2,tp=4` over all ranks of the process group. Its weights are parts of the
        weights that one process has, also those that `load_state_dict` takes. Rows of a batch are the caller's to split, and
        gradients over them `DistributedDataParallel`'s to average. With stage `zero` 2 or 3 they are `fully_shard`'s, by which
        the ranks of the batch share weights, gradients and what the optimizer keeps. Raises EinformerError E605, E741 to E745.
        """
        from einformer.interpreters.torch import module

        if mesh is not None and recompute != "none":
            raise fail("E605", "there is no recomputation of a rank of a mesh", fix='`recompute="none"`')
        if mesh is not None:
            return self._build_rank(mesh, shard, device, dtype, plan, initialisation, check, zero)
        if shard or zero:
            raise fail("E745", "there is a map of letters, and no mesh", fix='`mesh="tp=2"`, or no map')
        return cast("Module", module.build(self._recipe(plan, initialisation, check, recompute), device, dtype))

    # Where the ranks disagree, or one cannot build its module, all raise an error.
    def _build_rank(
        self,
        mesh: DeviceMesh | str | Mapping[str, int],
        shard: str,
        device: str,
        dtype: torch.dtype | None,
        plan: str,
        initialisation: str | None,
        check: str | None,
        zero: int,
    ) -> Module:
        from einformer.interpreters.torch import module, ranks
        from einformer.program.sharding import refuse_zero

        joined = ranks.make_mesh(mesh, device)
        axes = dict(zip(joined.mesh_dim_names, joined.shape, strict=True))

        def plan_rank() -> Recipe:
            recipe, sharding = self._recipe(plan, initialisation, check), self._shard(axes, shard, stages=True)
            refuse_zero(zero, sharding, find_ties(self._list_stages(sharding)))
            return replace(recipe, plan=replace(recipe.plan, sharding=sharding))

        def describe(recipe: Recipe) -> object:
            return recipe.plan, zero, recipe.spec, dict(self.legend.values), str(device).partition(":")[0], dtype, check

        recipe = ranks.agree_over(joined, axes, plan_rank, describe, ranks.BUILD)
        pipeline = recipe.plan.sharding and self._find_pipeline(recipe.plan.sharding)
        own = self._take_stage(recipe, joined.get_local_rank(pipeline[1])) if pipeline else recipe
        return cast("Module", module.build(own, device, dtype, joined, zero))

    # The recipe of the stage of this rank.
    def _take_stage(self, recipe: Recipe, number: int) -> Recipe:
        from einformer.interpreters.torch.ranks import Piped
        from einformer.language.stages import make_stage

        sharding = recipe.plan.sharding
        if sharding is None or (place := self._find_pipeline(sharding)) is None:
            return recipe
        stages, stage = (
            self._list_stages(sharding),
            make_stage(self.spec.layer, self.legend, place[0], number, sharding.size(place[1])),
        )
        own = stages[number]._recipe(recipe.plan.name)
        piped = Piped(recipe, stage, place[1], find_ties(stages))
        return replace(own, style=recipe.style, plan=replace(recipe.plan, sharding=sharding.without(place)), piped=piped)

    # The stages of the pipeline of a map, if it has one. A stage need not carry all indices that are split, the model must.
    def _list_stages(self, sharding: Sharding | None) -> list[Model]:
        from einformer.program.lowering import lower_functions
        from einformer.program.sharding import refuse_unused

        if sharding is None or (place := self._find_pipeline(sharding)) is None:
            return []
        functions = lower_functions(specialise(self.spec.tree, self.spec.name), self.legend)
        refuse_unused(sharding.without(place), functions)
        for weight in self.spec.layer.weights:
            if place[0] in (index.letter for index in weight.indices):
                message = f"`{weight.name}` has numbers for each turn of the loop over `{place[0]}`, which stages would share"
                raise fail("E741", message, weight.span, fix="a weight of a layer that the loop calls, or a map without stages")
        count = sharding.size(place[1])
        return [self.stage(number, count, place[0]) for number in range(count)]

    # The index of the loop of the model in a map, with the axis of the mesh.
    def _find_pipeline(self, sharding: Sharding) -> tuple[str, str] | None:
        from einformer.language.stages import find_loop

        return next((place for place in sharding.places if find_loop(self.spec.layer, place[0])), None)

    def _shard(self, mesh: str | Mapping[str, int], shard: str, stages: bool = False) -> Sharding | None:
        from einformer.program.sharding import read_sharding

        time = self.spec.layer.time
        if not (mesh or shard):
            return None
        sharding = read_sharding(mesh, shard, self.legend, time.letter if time else "")
        if not stages and (place := self._find_pipeline(sharding)):
            message, count = f"the stages over `{place[1]}` are models of their own", sharding.size(place[1])
            raise fail("E741", message, fix=f"`--stage 0/{count}`, `model.stage(0, {count})`, and a map without `{place[1]}`")
        return sharding

    # The legend at the sizes of all devices of a mesh together, which they can share.
    def _at(
        self, sizes: dict[str, int], mesh: str | Mapping[str, int], shard: str, stages: bool = False
    ) -> tuple[Legend, Sharding]:
        from einformer.program.sharding import WHOLE, refuse_remainders

        legend, sharding = self.at(**sizes), self._shard(mesh, shard, stages) or WHOLE
        refuse_remainders(sharding, legend)
        return legend, sharding

    def _plan(self, plan: str, initialisation: str | None = None, recompute: str = "none") -> Plan:
        from einformer.interpreters.torch.plan import INITIALISATIONS, PLANS

        scheme = initialisation or self._origin.initialisation.scheme
        check_name(INITIALISATIONS, "initialisation", scheme)
        check_name(("none", "full"), "recomputation of a module", recompute)
        chosen = replace(find_row(PLANS, "plan", plan), recompute=recompute == "full")
        return replace(chosen, initialisation=scheme, deviation=self._origin.initialisation.deviation)

    def _recipe(
        self, plan: str, initialisation: str | None = None, check: str | None = None, recompute: str = "none"
    ) -> Recipe:
        from einformer.huggingface.tensors import HuggingFaceWeights
        from einformer.interpreters.torch.generate import Decodes
        from einformer.interpreters.torch.module import Recipe
        from einformer.program import keeping

        if check is not None:
            check_name(("beartype",), "checker", check)
        chosen, origin = self._plan(plan, initialisation, recompute), self._origin
        methods = (*((HuggingFaceWeights,) if origin.family else ()), *((Decodes,) if self.spec.layer.time else ()))
        keep = functools.partial(keeping.kept, self.spec.tree, self.spec.name, self.legend)
        style, theirs = _style(check=check is not None), (origin.family, origin.config, origin.part)
        return Recipe(self.spec.tree, self.spec.name, self.legend, chosen, style, *theirs, methods, keep, written=self._written)

    def reference(
        self,
        *inputs: ArrayLike,
        weights: Mapping[str, ArrayLike] | None = None,
        lengths: Sequence[int] | None = None,
        trace: dict[str, NDArray[np.float64]] | None = None,
    ) -> NDArray[np.float64]:
        """Returns the output by the meaning of the notation, in float64.

        `inputs` and `weights` have their axes in the order of their letters. `lengths` are the lengths of rows in a batch:
        each row is evaluated alone, and is NaN beyond its length. `trace` is filled with every tensor by path. Raises
        EinformerError E603, E701 to E704, E309.
        """
        import numpy as np

        from einformer.interpreters import reference

        arrays = [np.asarray(array) for array in inputs]
        if lengths is not None:
            binding.check_lengths(lengths, [array.shape for array in arrays])
            return reference.evaluate_rows(lambda *row: self.reference(*row, weights=weights), arrays, lengths)
        legend = binding.bind_inputs(self.spec.layer, self.legend, [array.shape for array in arrays])
        return reference.evaluate(self.spec.tree, self.spec.name, arrays, weights or {}, legend, trace)


def refuse_missing(model: Model) -> None:
    """Raises EinformerError E601 with all sizes that are not bound, except those of inputs."""
    binding.refuse_unbound(specialise(model.spec.tree, model.spec.name), model.legend)


def choose_rows(convention: str, precision: str) -> tuple[Convention, Precision]:
    """Returns a convention and a precision by their names. Raises EinformerError E605."""
    return find_row(CONVENTIONS, "convention", convention), find_row(PRECISIONS, "precision", precision)
