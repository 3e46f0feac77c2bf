"""The forms in which interpreters are known to disagree, each with the reason; `tests/alone.py` has the shortest text of each.

Random texts leave them out. `test_interpreters` expects each text to fail, and fails once one does not: then its row goes.
"""

from __future__ import annotations

_RUNS = "functions of numbers are not emitted"
_NAMES = "a name of the text meets one of the emitted file"
_PAST = "a position before the first wraps to the last one in both plans"
_TOKENS = "tokens that are read through arithmetic are taken for features"

HOLES = {
    "a name that Python or torch has": _NAMES,
    "a scalar that is called like an index": _NAMES,
    "layers chosen in a choice": "a choice in a choice has all branches in each layer",
    "lazy: nothing is kept": "a softmax over nothing is not a number",
    "lazy: some are kept": "a softmax over nothing is not a number",
    "lazy: root": "the gradient of the branch that is not taken is not a number",
    "named: before": _PAST,
    "named: further before": _PAST,
    "named: the chunk before": _PAST,
    "number: dropped": _RUNS,
    "one of several inputs": "the order of the inputs decides what a row is",
    "slot: a multiple": "a slot outside its axis is read where the branch is not taken",
    "slot: digit under a condition": "the reference refuses a digit outside its axis in a branch that is not taken",
    "slot: from nothing": _PAST,
    "slot: minus": _PAST,
    "slot: minus one": _PAST,
    "tokens: arithmetic": _TOKENS,
    "tokens: compared": _TOKENS,
    "tokens: no further than": _TOKENS,
    "tokens: of the position": _TOKENS,
    "tokens: shifted in a line": _TOKENS,
}
