"""The forms in which interpreters are known to disagree, each with the reason; `tests/alone.py` has the shortest text of each.

Random texts leave them out. `test_interpreters` expects each text to fail, and fails once one does not: then its row goes.
"""

from __future__ import annotations

HOLES: dict[str, str] = {}
