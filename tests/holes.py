"""The forms in which interpreters are known to disagree, each with the reason; `tests/alone.py` has the shortest text of each.

Random texts leave them out. `test_interpreters` expects each text to fail, and fails once one does not: then its row goes.
"""

from __future__ import annotations

HOLES = {
    "a softmax of what attention gives": "fast fuses the weights of one attention that another one reads",
    "slot: digit under a condition": "the reference refuses a digit outside its axis in a branch that is not taken",
}
