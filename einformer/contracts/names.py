"""Which names say their axes? `q_bsea` does; `n_head`, `attention_mask`, `pixel_values` and `W_q` do not.

A suffix is a run of different letters of axes behind the only underscore of a name, and no word that people put there. A name
of one letter may have one as it is. A longer name, or a suffix of one letter, counts only where all its letters are known for
axes: from other names of the place, or because somebody says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from einformer.contracts.dtypes import EXACT

_SUFFIXED = re.compile(r"(?P<name>[^\W\d_][^\W_]*)_(?P<suffix>[a-zα-ω][a-zα-ω0-9]*)")
_AXES = frozenset("abcdefghjklmnstuvxy")  # the notes use these; most words hold another letter
_WORDS = frozenset(
    """
    abs act added all alt amax amean attn avg bad base batch beta bun bytes cache call case cast cat cell ch chunk
    chunks ckey clean cls cse ctx ctxs cube cum cute cx data date dec decay dense depth des desc diff dst dt edge
    else emb embd embed enc end eval even exact fact fake fc feat feats fed fetch fft flag flat flex fly fn freq
    func gate gated gen gt half hash hat head heads held hx hyd ind jnt just kd key keys kv lab label lag lam lane
    last lat layer left len length lengths lens les let level list ln lnf log lst mag main make mask mat max mean
    med mel meta mha mlp name names nat nd ne neg nest new next nfe nhead nt num numel numels nx safe sah save sc
    scale scaled seg self sent set sf shake shape shut side slab slate sq stack stage stale std step steps style sub
    sum sun sym ta tab tag tail take tan task taxk tch tdb tech temp test text tf tgt tl tmp tn tuple unk unmask use
    val vals value values van var vec vel vt xs yes ys
    """.split()  # noqa: SIM905
)


def suffixes(names: Iterable[str], known: Iterable[str] = ()) -> dict[str, str]:
    """Each of the names that says its axes, with their letters; `known` are letters of axes whatever the names are."""
    found = {name: (match["name"], match["suffix"]) for name in names if (match := _SUFFIXED.fullmatch(name))}
    found = {name: (head, letters) for name, (head, letters) in found.items() if _are_axes(letters)}
    axes = {letter for head, letters in found.values() if _plain(head, letters) for letter in letters} | set(known)
    return {name: letters for name, (head, letters) in found.items() if _plain(head, letters) or _all(letters, axes)}


def _are_axes(letters: str) -> bool:
    """Are they different, and no word?"""
    plain = [letter for letter in letters if not letter.isdigit()]
    return len(set(plain)) == len(plain) and letters not in _WORDS and letters not in EXACT


def _plain(head: str, letters: str) -> bool:
    """A name of one letter, with several letters of axes."""
    return len(head) == 1 and len(letters) > 1 and _all(letters, _AXES)


def _all(letters: str, axes: Iterable[str]) -> bool:
    return all(letter in axes or letter.isdigit() for letter in letters)
