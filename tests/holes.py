"""The forms in which interpreters are known to disagree, each with the reason; `tests/alone.py` has the shortest text of each.

Random texts leave them out. `test_interpreters` expects each text to fail, and fails once one does not: then its row goes.
"""

from __future__ import annotations

_NAMES = "a name of the text meets one of the emitted file"
_PAST = "a position before the first wraps to the last one in both plans"

HOLES = {
    "a layer that is called like a class": _NAMES,
    "a name that Python or torch has": _NAMES,
    "a scalar that is called like an index": _NAMES,
    "lazy: nothing is kept": "a softmax over nothing is not a number",
    "lazy: some are kept": "a softmax over nothing is not a number",
    "lazy: root": "the gradient of the branch that is not taken is not a number",
    "one of several inputs": "the order of the inputs decides what a row is",
    "slot: digit under a condition": "the reference refuses a digit outside its axis in a branch that is not taken",
    "slot: from nothing": _PAST,
}
