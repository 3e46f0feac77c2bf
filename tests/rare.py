"""The forms that few people write and the language allows, as data: masks, slots, numbers, names, orders.

Each has a name. `tests/well_formed.py` writes them, records which ones came up, and leaves out those that it is told to. In the
templates {0} is the tensor or index that is read, {1} the index there, and {n} the size of the axis.
"""

from __future__ import annotations

ORDERS = {  # how often, in percent
    "axes of a tensor in any order": 30,
    "axes of a weight in any order": 30,
    "a name that Python or torch has": 12,
    "one of several inputs": 40,
    "a text without time": 25,
    "a mask changed by <-": 25,
    "a mask changed in a loop": 50,
    "a mask changed by the layer that is given it": 40,
    "a layer that is called like a class": 20,
    "as many of the largest as a layer has": 100,
    "digits in a state": 30,
    "queries changed by <-": 15,
    "keys changed by <-": 15,
    "queries changed after the scores": 15,
    "weights of attention changed by <-": 12,
    "a mask by heads": 60,
    "a mask that data decide": 20,
    "a mask by layers": 50,
    "keys chosen by top": 12,
    "keys chosen by top beside a sink": 12,
    "a bias looked up by distance": 15,
    "an argument with the letter of a loop": 30,
    "layers chosen in a choice": 25,
    "experts of square matrices": 40,
    "experts over the sum of their weights": 40,
    "as far back as the turn": 50,
    "a scalar that is called like an index": 20,
    "a group in another order": 50,
    "what a turn keeps": 20,
    "what the next turn overwrites": 20,
    "a merged axis changed by <-": 40,
    "axes on one line": 30,
    "an axis of the library by its letter": 50,
    "scalars on one line": 30,
    "infinity in a list": 50,
    "a scalar that does not use its index": 40,
    "several weights on one line": 20,
    "a name with a digit": 6,
    "a layer of the library with another line": 15,
    "a layer of the library under another name": 15,
    "a layer that is given two tensors": 25,
    "a layer that is given a number": 25,
    "an instance that is called twice": 50,
    "an output whose axes are merged": 15,
    "a loop as often as a sum says": 25,
    "a look-up in a look-up": 20,
    "keys of another tensor": 30,
    "a state over its taps": 25,
    "a layer in the step of a state": 50,
    "attention over weights": 40,
    "attention over another tensor": 80,
    "a layer in a branch that data choose": 15,
}
NAMES = (  # of Python, of torch, of what is emitted, and of the letters in which a primed index is spelled there
    "in", "is", "type", "len", "float", "self", "torch", "nn", "to", "train", "cache", "forward", "generate", "layout",
    "s", "block", "blocks", "weight", "module", "None", "e1", "tensor", "t", "mask", "where0",
)  # fmt: skip
LAYERS = ("Linear", "Module", "Cache", "norm", "Norm", "Parameter", "Tensor", "Mainlike", "main")
MASKS = {
    "not": "where(not {1} > {0}, 0, -inf)",
    "a window or the first": "where({1} <= {0} and ({1} < 2 or {0} - W < {1}), 0, -inf)",
    "the later of two": "where(max({0}, {1}) <= {0}, 0, -inf)",
    "before the earlier of two": "where({1} <= min({0}, {0} + 3), 0, -inf)",
    "chunks by division": "where(floor({1} / W) == floor({0} / W) and {1} <= {0}, 0, -inf)",
    "chunks by remainder": "where({0} - {0} mod 3 <= {1} <= {0}, 0, -inf)",
    "every second": "where({1} <= {0} and ({0} - {1}) mod 2 == 0, 0, -inf)",
    "two masks": "where({1} <= {0}, 0, -inf) + where({0} - W < {1}, 0, -inf)",
    "a choice in a choice": "where({1} <= {0}, where({0} - {1} < 2, 0, -1), -inf)",
    "the difference": "where({0} - {1} >= 0, {1} / 9, -inf)",
    "a product of positions": "where({1} <= {0}, {0} {1} / 50, -inf)",
    "a root of the distance": "where({1} <= {0}, -sqrt({0} - {1}), -inf)",
}
CHANGES = {  # of a mask that is there already
    "a bias": "{2} - ({0} - {1}) / 3",
    "a window": "where({0} - 2 < {1}, {2}, -inf)",
    "half": "{2} / 2 + {1} / 5",
}
TIMES = {  # numbers that a line defines for each position, none of which is later
    "named: before": "{0} - 1",
    "named: further before": "{0} - 3",
    "named: not before the first": "max({0} - 2, 0)",
    "named: half": "floor({0} / 2)",
    "named: the start of a chunk": "{0} - {0} mod 3",
    "named: the chunk before": "3 floor({0} / 3) - 1",
    "named: a choice": "where({0} < 2, {0}, 1)",
    "named: no later than the third": "min({0}, 2)",
    "named: the first": "0 {0}",
}
BEFORE = {  # what stands in the slot of positions itself
    "slot: before": "({0} - 1)",
    "slot: far before": "({0} - 40)",
    "slot: the first": "0",
    "slot: minus one": "(-1)",
    "slot: minus": "(-{0})",
    "slot: from nothing": "(0 - {0})",
    "slot: two numbers": "({0} + 1 - 2)",
    "slot: twice less once": "(2 {0} - {0})",
    "slot: parentheses": "({0} - (1 + 1))",
    "slot: parentheses first": "(({0} - 1) - 2)",
    "slot: braces": "({0} - {{1 + 1}})",
    "slot: a power": "({0} - 2^1)",
}
PLACES = {  # a slot of any other axis, and where it stays inside
    "slot: next": ("({0} + 1)", "{0} < {n} - 1"),
    "slot: number first": ("(1 + {0})", "{0} + 1 < {n}"),
    "slot: previous": ("({0} - 1)", "{0} > 0"),
    "slot: reversed": ("({n} - 1 - {0})", ""),
    "slot: reversed, minus first": ("(-{0} + {n} - 1)", ""),
    "slot: a multiple": ("(2 {0})", "2 {0} < {n}"),
    "slot: a multiple and more": ("(2 {0} + 1)", "2 {0} + 1 < {n}"),
    "slot: nothing added": ("({0} + 0)", ""),
    "slot: a sum subtracted": ("({n} - ({0} + 1))", ""),
    "slot: a product of a sum": ("(2 ({0} + 1) - 2)", "2 {0} < {n}"),
    "slot: digit": ("0", ""),
    "slot: digit under a condition": ("1", "{n} > 1"),
}
NUMBERS = {  # numbers that a line defines for each place of an axis
    "named: rotated": "({0} + 1) mod {n}",
    "named: reversed": "{n} - 1 - {0}",
    "named: halved": "floor({0} / 2)",
    "named: doubled": "min(2 {0}, {n} - 1)",
    "named: previous": "max({0} - 1, 0)",
    "named: chosen": "where({0} > 0, {0} - 1, 0)",
    "named: logarithm": "min(floor(log2(1 + {0})), {n} - 1)",
    "named: less its remainder": "{0} - {0} mod 2",
}
TOKENS = {  # what selects a row, of tokens {0} and the size {n} of the vocabulary
    "tokens: shifted": ("where(s > 0, {0}, 0)", "x_{{b(s - 1)}}"),
    "tokens: shifted in a line": ("", "where(s > 0, x_{{b(s - 1)}}, 0)"),
    "tokens: arithmetic": ("", "(3 x_bs + 1) mod {n}"),
    "tokens: no further than": ("", "min(x_bs, {n} - 1)"),
    "tokens: compared": ("", "where(x_bs == 0, {n} - 1, x_bs)"),
    "tokens: of the position": ("", "(x_bs + s) mod {n}"),
}
SCALES = {  # functions of numbers alone
    "number: sigmoid": "sigmoid({n})",
    "number: silu": "silu({n})",
    "number: gelu": "gelu(1)",
    "number: relu": "relu({n} - 2)",
    "number: gelutanh": "gelutanh(0.5)",
    "number: softplus": "softplus({n} / 3)",
    "number: tanh": "tanh({n} / 4)",
    "number: dropped": "Dr(2, 0.1)",
    "number: largest": "max({n}, 3)",
    "number: remainder": "(7 - 7 mod 4)",
}
FACTORS = {  # three and more: {0} a tensor over the letter, {1} {2} {3} weights over it
    "factors: three": "{0} {1} {2}",
    "factors: four": "{0} {1} {2} {3}",
    "factors: over a norm": "{1} {0} {2} / (1 + {3}^2)",
    "factors: a number between": "{1} 2 {0} {2} / 3",
}
STATES = {  # recurrences of {0}: what stands for S at the position before is {1}
    "state: a gate of the input": "sigmoid({0}) {1} + {0}",
    "state: a largest": "max({1} / 2, {0})",
    "state: a choice": "where(s mod 3 == 0, 0, {1} / 2) + {0}",
    "state: two before": "{1} / 2 - {2} / 4 + {0}",
    "state: under a function": "tanh({1} + {0})",
}
SPELLINGS = {  # what can be written in another way: {0} a tensor over the letter {1}
    "an exponent below zero": "{0} (1 + {0}^2)^-1",
    "an exponent below zero, of a number": "{0} 2^-2 + {0} (2 + {0}^2)^-0.5",
    "an exponent in parentheses": "(1 + {0}^2)^(1 / 3)",
    "braces for parentheses": "{{{0} + 1}} tanh{{{0}}}",
    "a sum of the rest of its product": "{0} / 2 + sum_{1} {0} {0} / 3",
    "a sum beside its factor": "(sum_{1} {0}) {0} / 3",
    "a chain of data": "where(-1 < {0} <= 1, {0}, 1)",
    "a condition of data and of an index": "where({0} > 0 and {1} != 1, {0}, {1} / 3)",
    "a condition of either": "where(not {0} > 0 or {1} < 1, {0}, {1} / 3)",
    "a branch without letters": "where({0} > 0, 1, -1 / 2)",
}
SPARSE = {
    "top: of a sum": "where(top_{{1 + 1,{1}}}({0}), {0}, 0)",
    "top: of a sum of a scalar": "where(top_{{N - 1,{1}}}({0}), {0}, 0)",
    "top: more than there are": "where(top_{{9,{1}}}({0}), {0}, 0)",
    "top: all but": "where(not top_{{9,{1}}}({0}), {0}, 0)",
}
LAZY = {  # branches that are nothing where they are not taken
    "lazy: root": "where({0} > 0, sqrt({0}), 0)",
    "lazy: logarithm": "where({0} > 0, log({0}), {0})",
    "lazy: quotient": "where({0} != 0, 1 / (1 + {0}^2), 0)",
    "lazy: nothing is kept": "Sm_{1}(where({0} > 100, {0}, -inf))",
    "lazy: some are kept": "Sm_{1}(where({0} > 1, {0}, -inf))",
    "lazy: a sum over the letter of the condition": "where({0} > 0, (sum_{1} sqrt(abs({0}))), 0)",
    "lazy: a mean over the letter of the condition": "where({0} > 0, mean_{1}(1 / (2 + {0})), {0})",
    "lazy: a softmax over the letter of the condition": "where({0} > 0, Sm_{1}(log(1 + {0}^2)), 0)",
    "lazy: a choice over the letter of the condition": "where({0} > 0, (sum_{1} where({0} > 1, log({0}), {0})), 0)",
    "lazy: the number of the condition": "where({1} < 2, (sum_{1} sqrt({1} + {0}^2)), {0})",
}
BRANCHES = {  # a value with a name, {1}, made of a tensor {0} over the letter {2}, and its readers; {3} has the sign of {0}
    "branch: a name": ("sqrt({0})", "where({0} > 0, {1}, 0)"),
    "branch: a name with an inverse": ("1 / {0}", "where({0} > 0, {0} {1}, {0})"),
    "branch: a name in a product": ("log({0})", "where({0} <= 0, {0}, 2 {1} {0})"),
    "branch: a name in a branch of a branch": ("{0}^-0.5", "where({0} < 9, where({0} > 0, {1}, 1), 0)"),
    "branch: a name in both": ("sqrt(abs({0}))", "where({0} > 0, {1}, -{1} / 2)"),
    "branch: a name in two": ("1 / {0}", "where({0} > 0, {1}, 0) + where({0} < 0, {1}, {0})"),
    "branch: a name in two alike": ("sqrt({0})", "where({0} > 0, {1}, 0) + where({0} > 0, 2 {1}, 1)"),
    "branch: a name beside": ("log(1 + abs({0}))", "where({0} > 0, {1}, 0) - {1} / 2"),
    "branch: a name under a sum": ("sqrt(abs({0}))", "where({0} > 0, (sum_{2} {1}), {0})"),
    "branch: a name under a softmax": ("1 / (1 + {0}^2)", "where({0} > 0, Sm_{2} {1}, {0})"),
    "branch: a later product": ("sqrt({0})", "where({3} > 0, 2 {1}, {0})"),
    "branch: a reduction": ("log({0})", "where(min({0}, max_{2} {0}) > 0, {1}, {0})"),
    "branch: a name in a condition": ("1 / (1 + {0}^2)", "where({1} > 1 / 2, {1}, {0} / 3)"),
}
TABLES = (MASKS, CHANGES, TIMES, BEFORE, PLACES, NUMBERS, TOKENS, SCALES, FACTORS, STATES, SPELLINGS, SPARSE, LAZY, BRANCHES)
FORMS = frozenset(ORDERS).union(*TABLES)
