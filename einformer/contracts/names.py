"""Which names say their axes? `q_bsea` does; `n_head`, `attention_mask` and `W_q` do not.

A suffix is a run of different lower-case letters, digits for fixed sizes among them, behind the only underscore of a name. It
is no word that people put there, and a letter alone counts only if another name of the same place has it in a longer suffix.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_SUFFIXED = re.compile(r"(?P<name>[^\W_]+)_(?P<suffix>[a-zα-ω][a-zα-ω0-9]*)")
_WORDS = frozenset(
    """
    abs act added adj al all amp and args as at axis back bad bar base beta bf bias big bins bits block body bot box
    buf by ce clip col conv cos cost count cpu ctx cur dim dims do down dst dtype embd emb enc end env eos err est
    fact fc ff final fix flat fn for freq from full gate gates gt hat head heads height hid hot id ids idx if im img
    in inds init inp inv is it item key keys kind kv last lat layer left len lens lin list log logits loop lr main
    make mask mat max mean med mid min mix mlp mode mod model mu mul nd neg new next nil norm not num obj of off ok
    old on one op or ord org orig out pad pair part parts path per perm pe pos post pre prob probs prod proj prev
    ptr q qk qkv raw real ref rel rep res reshaped right rms rope rot row sa sample sc scale scaled score sec seg
    self seq shape sign sim sin size skip slots sort soft sol spec split sq src stack state std step sub sum swap
    tab tag tail tau td temp tgt th tie time tmp to tok token tp tr tri true type up use val var vec vel ver vocab
    wd we weight width with wo words work wt
    """.split()  # noqa: SIM905
)


def suffix(name: str) -> str:
    """The letters behind a name, if they could be axes; a single one could only beside others (`suffixes`)."""
    match = _SUFFIXED.fullmatch(name)
    if match is None:
        return ""
    letters = match["suffix"]
    plain = [letter for letter in letters if not letter.isdigit()]
    return "" if len(set(plain)) < len(plain) or letters in _WORDS else letters


def suffixes(names: Iterable[str]) -> dict[str, str]:
    """Each of the names that says its axes, with their letters."""
    found = {name: letters for name in names if (letters := suffix(name))}
    axes = {letter for letters in found.values() if len(letters) > 1 for letter in letters}
    return {name: letters for name, letters in found.items() if len(letters) > 1 or letters in axes}
