"""Recognises attention by its terms: a softmax over keys of products of queries and keys, applied to values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from einformer.language.calls import axis_of
from einformer.language.sizes import Legend
from einformer.program import operations as op
from einformer.program.collectives import AllGather, AllGatherVary, Ring
from einformer.program.kernels import Attention, Score
from einformer.program.matching import split_sum
from einformer.program.operations import Axes, Function, Value, add, contract, map_values, multiply, replace_operands
from einformer.program.orders import MANY, estimate_size, order_pairs
from einformer.program.rewrite import FunctionScope, Rewriting, walk
from einformer.program.terms import MINUS, ONE, Factor, Term, Terms, identity, spell, spell_factors
from einformer.program.windows import Sides


def pass_round(function: Function, sides: Mapping[tuple[str, str], Sides]) -> Function:
    """A function whose attention reads gathered keys and values, of indices with `sides`, block by block from rank to rank."""

    def read(value: Value, over: str) -> Iterator[Value]:
        same = isinstance(value.operation, op.View) and value.operation.old == value.operation.new
        gather = value.operation.argument.operation if same and isinstance(value.operation, op.View) else value.operation
        if isinstance(gather, AllGather) and type(gather) in (AllGather, AllGatherVary) and gather.whole == over:
            for before, after in [sides[gather.letter, over]] if (gather.letter, over) in sides else []:
                moves = isinstance(gather, AllGatherVary)
                ring = Ring(gather.argument, gather.mesh, gather.letter, over, before, after, moves)
                yield replace(value, operation=ring)

    def change(value: Value) -> Value:
        kernel = value.operation
        if isinstance(kernel, Attention) and (*kernel.heads, *kernel.groups):
            rings = [ring for operand in (*kernel.keys, kernel.value) for ring in read(operand, kernel.over)]
            if len(rings) > len(kernel.keys):
                return replace(value, operation=replace(kernel, keys=tuple(rings[:-1]), value=rings[-1]))
        return value

    return Rewriting(change).rewrite_function(function) if sides else function


# Each attention of a function: the value in whose place it stands, its kernel, and what it reads.
def find_attentions(
    function: Function, legend: Legend, trained: frozenset[str], time: str
) -> list[tuple[Value, Attention, set[Value]]]:
    scope, attentions = FunctionScope.of(function, legend, trained), list[tuple[Value, Attention, set[Value]]]()
    attending = Attending(scope, time)

    def look(value: Value) -> Value:
        whole = attending.read_attention(value)
        for kernel in walk(whole) if whole is not None and scope.allows(whole) else ():
            if isinstance(kernel.operation, Attention):
                mask = kernel.operation.mask
                closed = {*scope.walk_leaves(kernel), *(walk(mask) if mask is not None else ())}
                attentions.append((value, kernel.operation, closed))
        return value

    Rewriting(look, descending=True, scope=scope).rewrite_function(function)
    return attentions


# The sums that an attention computes, with its value, and the letters of keys and queries where a sink is one more key.
def find_attended(attentions: Iterable[tuple[Value, Attention, set[Value]]]) -> dict[Value, tuple[Value, Axes]]:
    return {
        inner: (value, (kernel.over, kernel.position) * (kernel.sink is not None))
        for value, kernel, closed in attentions
        for inner in walk(value, closed=closed)
        if isinstance(inner.operation, op.Einsum) and kernel.over in (*inner.operation.letters, *inner.axes)
    }


# Of each attention the keys and values that go round, with their index, one of `letters`, and that under which it reads them.
def find_round(
    attentions: Iterable[tuple[Value, Attention, set[Value]]], letters: Collection[str]
) -> Iterator[dict[Value, tuple[str, str]]]:
    def list_pairs(value: Value, over: str) -> list[tuple[str, str]]:
        pairs = zip(value.operation.old, value.operation.new, strict=True) if isinstance(value.operation, op.View) else ()
        return [(old[0], over) for old, new in pairs if new == (over,) and len(old) == 1 and old[0] in letters]

    for _, kernel, _ in attentions:
        pairs = {side: list_pairs(side, kernel.over) for side in (*kernel.keys, kernel.value)}
        if (*kernel.heads, *kernel.groups) and all(pairs.values()):
            yield {side: own for side, (own,) in pairs.items()}


@dataclass(frozen=True, slots=True)
class Scores:
    """`c sum_e (q k)`: the factors that do not depend on positions, the others, and the letters that are summed."""

    scale: Term
    factors: Term
    summed: frozenset[str]
    written: Value
    cap: Value | None = None  # what is computed of the product


@dataclass(frozen=True, slots=True)
class QueryKey:
    """The query and the key of scores, the letters of their features, and their scale."""

    query: Value
    key: Value
    features: Axes
    scale: Term

    @property
    def letters(self) -> Axes:
        return tuple(letter for letter in (*self.key.axes, *self.query.axes) if letter not in self.features)


@dataclass(frozen=True, slots=True)
class Attending:
    """Looks for attention in one scope of a model whose positions have the letter `time`."""

    scope: FunctionScope
    time: str
    steps: bool = False  # one position is computed at a time, the others are kept
    sinks: bool = False  # only attention with a sink, whose scores are read twice
    flex: bool = False  # masks are conditions on positions, and scores may be capped

    # A value as an attention, which includes the equations before it that nothing else reads.
    def read_attention(self, value: Value) -> Value | None:
        kernel = self.read_kernel(value) if isinstance(value.operation, op.Einsum) else None
        if kernel is not None or self.steps or "lse" not in self.scope.operators:  # a step would copy all keys, to add one
            return kernel
        sinking = replace(self, sinks=True)
        kernel = sinking.read_kernel(value) if sinking.has(value, "lse") else None
        return kernel if kernel is not None and self.scope.covers(value, kernel) else None

    def read_kernel(self, value: Value) -> Value | None:
        product, summed = self.read_sum(value)
        for softmax, dropout, others in self.walk_weights(product):
            match softmax.operation:
                case op.Reduce("Sm", (over,), argument) if over in summed:
                    rest, sink = self.split_sink(others, over, argument)
                    parts = [self.read_scores(term, over) or term for term in self.list_terms(argument)]
                    if self.flex and all(isinstance(part, Value) for part in parts):
                        parts = [self.read_capped(part, over) or part for part in parts if isinstance(part, Value)]
                    scores = [part for part in parts if isinstance(part, Scores)]
                    masks = [part for part in parts if isinstance(part, Value)]
                    values = any(over in factor.letters for factor in rest.powers)
                    twice = any(softmax in walk(factor.value) for factor in rest.powers)
                    capped = any(part.cap is not None for part in scores)
                    fits = (
                        values and not twice and self.sinks == (sink is not None) and not (capped and (dropout or scores[1:]))
                    )
                    if scores and fits and not self.are_read(argument, masks):
                        return self.build_kernel(scores, masks, sink, rest, dropout, over, summed - {over})
        return None

    # The factors of a product with their dropout, and the others: dropout of a factor and of what is as large along its letters
    # is dropout of the factor.
    def walk_weights(self, product: Term) -> Iterator[tuple[Value, Value | None, Term]]:
        for factor in (factor for factor, power in product.powers.items() if power == 1):
            inside, dropout = self.split_dropout(factor.value)
            dropped = Term(ONE, {factor: ONE}) if dropout is None else self.read_product(inside, "Sm")
            for weights, power in dropped.powers.items():
                if power == 1 and all(other.letters <= weights.letters for other in dropped.powers):
                    yield weights.value, dropout, product.without(factor).times(dropped.without(weights))

    # Scores that a mask reads too are computed whole.
    def are_read(self, argument: Value, masks: Sequence[Value]) -> bool:
        opened, todo = set[Value](), [argument]
        while todo:
            inside = [part for part in self.scope.walk_leaves(todo.pop()) if part not in opened and self.opens(part)]
            opened.update(inside)
            todo += inside
        return any(leaf in opened and leaf.kind == "tensor" for mask in masks for leaf in self.scope.walk_leaves(mask))

    # The factors of a sum of weights and values, those around it too, and its letters; nothing for another value.
    def read_sum(self, value: Value) -> tuple[Term, frozenset[str]]:
        around, total = Term(), value.operation
        match value.operation:
            case op.Map("*" | "/"):
                product = self.read_product(value, "Sm")
                split = split_sum(product, lambda inner: self.opens(inner) and self.has(inner, "Sm"))
                around, _, total = split or (around, value, total)
        if not isinstance(total, op.Einsum) or not self.has(value, "Sm"):
            return Term(), frozenset()
        inside = self.take_apart(multiply(total.factors), "Sm")
        return inside[0].times(around) if len(inside) == 1 else Term(), frozenset(total.letters)

    # ------------------------------------------------------------------------------------------------------- a sink

    # Sm_s'(t) sigmoid(lse_s' t - σ) are the weights of the keys beside one more, whose score is σ and whose value is zero. A
    # cap of the scores, κ tanh(t / κ), is no term of them: the kernel has no place for it, and they are computed whole.

    # The other factors of the weights, and the score of a key without a value.
    def split_sink(self, product: Term, over: str, scores: Value) -> tuple[Term, Value | None]:
        for factor in product.powers if self.sinks else ():
            match factor.value.operation:
                case op.Map("sigmoid", (logit,)) if product.powers[factor] == 1:
                    terms = self.scope.read(logit, self.opens)
                    less = [spell(replace(term, number=-term.number)) for term in terms if not _is_total(term, over, scores)]
                    if len(less) == len(terms) - 1:
                        return product.without(factor), add(less)
        return product, None

    # --------------------------------------------------------------------------------------------------- where it is

    def opens(self, value: Value) -> bool:
        return self.scope.is_open(value) or (self.sinks and self.scope.is_computed(value))

    def has(self, value: Value, operator: str) -> bool:
        seen, todo = set[Value](), [value]
        while todo:
            inner = todo.pop()
            if _name_operator(inner) == operator:
                return True
            todo += (part for part in _list_inside(inner) if part not in seen and self.opens(part))
            seen.update(todo)
        return False

    def take_apart(self, value: Value, operator: str) -> Terms:
        return self.scope.read(value, lambda inner: self.opens(inner) and self.has(inner, operator))

    def read_product(self, value: Value, operator: str) -> Term:
        terms = self.take_apart(value, operator)
        return terms[0] if len(terms) == 1 else Term(ONE, {self.scope.values.seal(value): ONE})

    def split_dropout(self, value: Value) -> tuple[Value, Value | None]:
        match value.operation:
            case op.Map("Dr", (argument, probability)) if self.opens(argument):
                return argument, probability
            case _:
                return value, None

    # The sums and the masks around products are multiplied out.
    def list_terms(self, value: Value) -> list[Value]:
        if not (self.opens(value) and self.has(value, "sum")):
            return [value]
        match value.operation:
            case op.Map("+", parts):
                return [term for part in parts for term in self.list_terms(part)]
            case op.Map("where", (condition, then, otherwise)) if MINUS in (then.operation, otherwise.operation):
                hidden = then.operation == MINUS
                terms = self.list_terms(otherwise if hidden else then)
                rest = add([term for term in terms if not self.has(term, "sum")])
                arms = (then, rest) if hidden else (rest, otherwise)
                return [*(term for term in terms if self.has(term, "sum")), map_values("where", [condition, *arms])]
            case op.Map("*" | "/"):
                product = self.read_product(value, "sum")
                for factor, power in product.powers.items():
                    match factor.value.operation:
                        case op.Map("+", parts) if power == 1 and self.has(factor.value, "sum"):
                            rest = spell(product.without(factor))
                            return [x for part in parts for x in self.list_terms(map_values("*", [rest, part]))]
                return [value]
            case _:
                return [value]

    # One sum of a product, with or without factors around it.
    def read_scores(self, value: Value, over: str) -> Scores | None:
        product = self.read_product(value, "sum") if self.opens(value) and self.has(value, "sum") else Term()
        split = split_sum(product, self.opens)
        inside = self.scope.read(multiply(split[2].factors)) if split is not None else ()
        if split is None or len(inside) != 1:
            return None
        product = self.split_scales(inside[0]).times(split[0])
        scale = replace(product.part(lambda factor: not factor.letters), number=product.number)
        return Scores(scale, product.times(scale, -ONE), frozenset(split[2].letters), value)

    # `κ tanh(q k / κ)`, where FlexAttention computes it.
    def read_capped(self, value: Value, over: str) -> Scores | None:
        if not (self.opens(value) and self.has(value, "sum") and isinstance(value.operation, op.Map)):
            return None
        if value.operation.function == "Dr":
            return None
        inside = [argument for argument in value.operation.arguments if self.has(argument, "sum")]
        inner = self.read_scores(inside[0], over) or self.read_capped(inside[0], over) if len(inside) == 1 else None
        if inner is None or not self.opens(inside[0]):
            return None
        score = inner.cap or Value(Score(), inside[0].axes, "tensor", inside[0].span)
        arguments = tuple(score if argument is inside[0] else argument for argument in value.operation.arguments)
        return replace(inner, written=value, cap=replace(value, operation=replace(value.operation, arguments=arguments)))

    # What positions alone decide is computed again, at each pair of positions.
    def open_pairs(self, value: Value, position: str, over: str) -> Value:
        pairwise = {position, over} <= {*value.axes} and isinstance(value.operation, op.Map | op.Spread | op.View | op.Gather)
        if not pairwise or (value in self.scope.names and not self.scope.is_computed(value)):
            return value
        operation = replace_operands(value.operation, lambda inner: self.open_pairs(inner, position, over))
        return replace(value, operation=operation)

    # `q / sqrt(H)` by a name of its own is q, and a scale.
    def split_scales(self, product: Term) -> Term:
        for factor in product.powers:
            opens = factor.value in self.scope.names and self.opens(factor.value) and product.powers[factor] == 1
            value = self.scope.read(factor.value) if opens else ()
            lettered = [power for power in value[0].powers if power.letters] if len(value) == 1 else []
            if len(lettered) == 1 and self.is_tensor(lettered[0].value) and value[0].powers[lettered[0]] == 1:
                product = product.without(factor).times(value[0])
        return product

    def is_tensor(self, value: Value) -> bool:
        if value in self.scope.names:
            return self.scope.stands(value)
        return isinstance(value.operation, op.View | op.Gather) and all(map(self.scope.stands, self.scope.walk_leaves(value)))

    # ---------------------------------------------------------------------------------------------------- as a kernel

    # `Attention` on (batch, heads, positions, features), where the letters allow it, and the factors around it.
    def build_kernel(
        self,
        scores: list[Scores],
        masks: list[Value],
        sink: Value | None,
        rest: Term,
        dropout: Value | None,
        over: str,
        summed: frozenset[str],
    ) -> Value | None:
        sides = [self.read_pair(part, over) for part in scores]
        products = [pair for pair in sides if pair is not None]
        letters = dict.fromkeys(letter for pair in products for letter in pair.letters if letter != over)
        together = (letter for letter in letters if any(letter in pair.key.axes for pair in products))
        shared = tuple(
            sorted(together, key=lambda letter: self.estimate_size(letter) < MANY)
        )  # what a call brings along, then heads
        own = [letter for letter in letters if letter not in shared]
        if not own or not shared or (self.steps and len(products) > 1):  # a step would copy all keys, to lay them side by side
            return None
        position = self.choose_position(own, over)
        groups, batch, heads = tuple(letter for letter in own if letter != position), shared[:1], shared[1:]
        value, around = self.value(rest, over, summed, (*letters, over))
        put = [letter for letter in value.axes if letter not in (*shared, over)]
        masks = [*masks, *(part.written for part, pair in zip(scores, sides, strict=True) if pair is None)]
        cap = scores[0].cap
        causal = bool(masks) and sink is cap is None and all(self.is_causal(mask, position, over) for mask in masks)
        mask = add(masks) if masks and not causal else None
        if self.flex and mask is not None and dropout is None:
            mask = self.open_pairs(mask, position, over)
            fits = {*mask.axes} <= {*batch, *heads, *groups, position, over}
        else:
            fits = mask is None or _lines_up(mask, batch, (*heads, *groups), position, over)
        fits &= cap is None or {*cap.axes} <= {*batch, *heads, *groups, position, over}
        fits &= sink is None or set(sink.axes) <= {*batch, *heads, *groups, position}
        if not fits or len(put) != 1 or not {*shared, over} <= set(value.axes) or put[0] in own:
            return None
        products, scale = self.share_scale(products)
        queries, keys = tuple(pair.query for pair in products), tuple(pair.key for pair in products)
        features = tuple(pair.features for pair in products)
        kernel = Attention(
            queries,
            keys,
            features,
            value,
            scale,
            mask,
            sink,
            dropout,
            causal,
            batch,
            heads,
            groups,
            position,
            over,
            put[0],
            cap,
        )
        whole = Value(kernel, (*batch, *heads, *groups, position, *put), "tensor", value.span)
        plain, tensors = [part for part in around if not part.axes], [part for part in around if part.axes]
        left = summed & {letter for part in (whole, *tensors) for letter in part.axes}
        if left:
            whole = contract(tuple(sorted(left)), (whole, *tensors))
        factors = [whole, *plain, *([] if left else tensors)]
        return multiply(factors)

    # The query and the key of scores, once the factors between are multiplied to one of them, where that is less work.
    def read_pair(self, scores: Scores, over: str) -> QueryKey | None:
        sides = spell_factors(scores.factors)
        while len(sides) > 2:
            order = order_pairs([frozenset(side.axes) for side in sides], scores.summed, partial(self.estimate, scores.summed))
            sides = self.join(sides, order[0], scores.summed)
        keys = [side for side in sides if over in side.axes]
        if len(sides) != 2 or len(keys) != 1:
            return None
        key, query = keys[0], next(side for side in sides if side is not keys[0])
        features = tuple(letter for letter in key.axes if letter in scores.summed and letter in query.axes)
        plain = {letter for side in sides for letter in side.axes if letter in scores.summed} == set(features)
        own = set(query.axes) - set(key.axes)
        if not plain or not features or not any(self.runs(letter, over) for letter in own):
            return None
        return QueryKey(query, key, features, scores.scale)

    # A position of queries runs over the axis of the keys, or over one whose length is open.
    def runs(self, letter: str, over: str) -> bool:
        return axis_of(letter) in (axis_of(over), self.time) or self.estimate_size(letter) == MANY

    def estimate_size(self, letter: str) -> int:
        return estimate_size(self.scope.values.legend, letter, self.time * self.steps)

    # Features of an open size are fewer than positions.
    def estimate(self, features: frozenset[str], letter: str) -> int:
        is_open = letter in features and not self.scope.values.legend.is_bound(letter)
        return MANY // 2 if is_open else self.estimate_size(letter)

    # The other letters are heads that share keys.
    def choose_position(self, own: Sequence[str], over: str) -> str:
        return max(
            own, key=lambda letter: (axis_of(letter) == axis_of(over), axis_of(letter) == self.time, self.estimate_size(letter))
        )

    def value(self, rest: Term, over: str, summed: frozenset[str], weights: Axes) -> tuple[Value, list[Value]]:
        sides, letters = spell_factors(rest), {*summed, over}
        while True:
            holders = [place for place, side in enumerate(sides) if over in side.axes]
            pair = (holders[0], holders[1]) if len(holders) > 1 else self.find_before(sides, weights, letters)
            if pair is None:
                break
            sides = self.join(sides, pair, letters - {over} - set(weights))
        around = [side for side in sides if over not in side.axes]
        number = [] if rest.number == 1 else [spell(Term(rest.number))]
        return next(side for side in sides if over in side.axes), [*number, *around]

    # The joint letters are those that no other side has.
    def join(self, sides: list[Value], pair: tuple[int, int], summed: Collection[str]) -> list[Value]:
        some, rest = [sides[place] for place in pair], [side for place, side in enumerate(sides) if place not in pair]
        here = {letter for letter in summed if not any(letter in side.axes for side in rest)}
        both = here & set(some[0].axes) & set(some[1].axes)
        product = contract(tuple(sorted(both)), tuple(some)) if both else map_values("*", some)
        self.scope.plain.add(product)
        return [*rest, product]

    # The two that are multiplied before the weights are applied, if that is less work.
    def find_before(self, sides: list[Value], weights: Axes, letters: set[str]) -> tuple[int, int] | None:
        if len(sides) < 2:
            return None
        factors = [frozenset(axes) for axes in (weights, *(side.axes for side in sides))]
        one, other = order_pairs(factors, frozenset(letters), self.estimate_size)[0]
        return (one - 1, other - 1) if one else None

    # A causal mask is zero up to the position of the query, and -inf after it.
    def is_causal(self, mask: Value, position: str, over: str) -> bool:
        same = axis_of(position) == axis_of(over) and position == axis_of(position)
        return same and self.scope.values.is_causal(mask, position, over)

    # The scale is a number of Python, or in the queries; None where a kernel has it by itself.
    def share_scale(self, products: list[QueryKey]) -> tuple[list[QueryKey], Value | None]:
        scale, features = products[0].scale, products[0].features
        alike = all((pair.scale.number, pair.scale.product) == (scale.number, scale.product) for pair in products)
        if not (alike and spell(scale).plain):
            queries = [map_values("*", [spell(pair.scale), pair.query]) for pair in products]
            one = Value(op.Constant(1), (), "integer")
            return [replace(pair, query=query) for pair, query in zip(products, queries, strict=True)], one
        size = self.scope.values.size(features[0])
        root = self.scope.values.expand_sums(map_values("^", [size, Value(op.Constant(-0.5), (), "number")]))
        alone = len(products) == 1 and len(features) == 1 and identity(root) == identity((scale,))
        return products, None if alone else spell(scale)

    # --------------------------------------------------------------------------------------------------- why not

    # Returns the letter of the keys, and the reason; None where there is no softmax of scores.
    def find_refusal(self, value: Value) -> tuple[str, str] | None:
        if not isinstance(value.operation, op.Einsum):
            return None
        summed = set(value.operation.letters)
        for factor in self.walk_factors(value):
            softmax, reason = self.follow(factor.value, "Sm")
            match softmax.operation if softmax is not None else None:
                case op.Reduce(_, letters, argument) if over := set(letters) & summed:
                    scores, around = self.follow(argument, "sum")
                    if scores is not None:
                        return over.pop(), reason or around or "its letters are not those of queries, keys and values"
        return None

    def walk_factors(self, value: Value) -> Iterator[Factor]:
        for factor in (factor for term in self.scope.read(value) for factor in term.powers):
            match factor.value.operation:
                case op.Einsum(_, factors):
                    yield from (inner for term in self.scope.read(multiply(factors)) for inner in term.powers)
                case _:
                    yield factor

    # Returns the place of an operator in a value, and the reason why it is neither a factor nor a term.
    def follow(self, value: Value, operator: str) -> tuple[Value | None, str]:
        several = ""
        if value in self.scope.names:
            if self.scope.loops.get(value) != self.scope.here:
                return None, ""
            several = f"`{self.scope.names[value]}` is read more than once" if self.scope.reads[value] > 1 else ""
            gone = self.scope.find_changed(value)
            several = f"`{gone}` has changed since" if gone else several
        if _name_operator(value) == operator:
            return value, several
        for part in _list_inside(value):
            inner, reason = self.follow(part, operator)
            if inner is not None:
                name = _name_applied(value)
                around = f"`{name}` stands around the scores, which the kernel has no place for" if name else ""
                return inner, several or reason or around
        return None, several


def _name_operator(value: Value) -> str:
    match value.operation:
        case op.Einsum():
            return "sum"
        case op.Reduce(name):
            return name
        case _:
            return ""


def _name_applied(value: Value) -> str:
    match value.operation:
        case op.Map(name) | op.Call(name) if name not in ("+", "*", "/", "^", "Dr", "where"):
            return name
        case _:
            return _name_operator(value)


def _list_inside(value: Value) -> tuple[Value, ...]:
    match value.operation:
        case op.Gather(numbers=numbers):
            return numbers
        case op.View():
            return ()
        case _:
            return value.operands


def _lines_up(mask: Value, batch: Axes, together: Axes, position: str, over: str) -> bool:
    axes = set(mask.axes)
    return axes <= {*batch, position, over, *together} and not (axes & set(together) and len(together) > 1)


# The total is the logarithm of the sum of the exponentials of the scores.
def _is_total(term: Term, over: str, scores: Value) -> bool:
    match [(factor.value.operation, power) for factor, power in term.powers.items()]:
        case [(op.Reduce("lse", (letter,), argument), 1)]:
            return letter == over and argument is scores and term.number == 1
        case _:
            return False
