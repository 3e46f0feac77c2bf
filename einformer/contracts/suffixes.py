"""Finds the names of a Python file whose suffix states axes: `q_bsea`, if the file shows that b, s, e and a are axes.

Most suffixes are words (`n_head`), so a suffix counts only if the file shows each of its letters to be an axis: by an
equation or a pattern beside a name with just these letters, by an annotation, a contract or a legend in comments, or by
sizes that are unpacked from a shape into its letters. A whole suffix that is spelled so (except in a contract or a legend)
makes axes even of a word. Single letters do not: a file about heads h, features e, a and d may still have a number
`n_head`.

The names of one function can show as much. A contract uses this, since it does not read a file.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Container, Iterable, Iterator

from einformer.notes.names import ENTRY, LETTER, NAME

_ITEM = re.compile(r"(?P<name>[^\W\d_][^\W_]*)_(?P<suffix>[a-zα-ω][a-zα-ω0-9]*|[A-Z]{2,})")  # the letters of a contract
_AXES = frozenset("abcdefghjklmnstuvxy")  # the notes use these; most words hold another letter
_CONTRACT = re.compile(r"\s*\w+_\w+(\s*,\s*\w+)*\s*->\s*\w+_\w+(\s*,\s*\w+)*\s*")
_WORDS = frozenset(  # none is a suffix of a shipped text; it is asked only where nothing spells the suffix as axes
    """
    abs act add added all alt amax amean args attn avg bad batch best beta bf16 bias bins bits blocks bytes cache call
    case cast cat cell ch char chunk chunks ckey class clean clip cls code cond conv cos cse ctx ctxs cube cum cute cx
    data date dec decay def dense depth des desc diff dim dims dist done drop dst dt edge else emb embd embed enc end
    eps erf err eval even exact exp eye f16 f32 f64 fact fake feat feats fed fetch ff fft file flag flat flex fly freq
    from full func gate gated gen grad grid group gt half hash hat head heads held hid hidden hx hyd i16 i32 i64 i8 id
    ids idx in ind index indices inf init inputs inv is item jnt just key keys kv lab label lag lam lane last lat
    layer left len length lengths lens les let level line list ln lnf log logits loss lr lst mag main make map mask
    masks mat max mean med mel meta mha mid min mlp mode name names nat neg nest new next nfe nhead node norm not ns
    num numel numels nx odd of off old on ops or out outs pad part path pe pos post pre prev probs proj ptr query
    range rank rate ratio raw ref res ret right rows safe sah save scale scaled score scores self sent seq set shake
    shape shift shut side sin size sizes slab slate sq src stack stage stale start state states std step steps str
    style sub sum sym tab tag tail take tan task taxk tch tdb tech temp test text tf tgt time tl tmp to tok token
    tokens top true tuple type u8 unk unmask up use val vals value values van var vec vel via vs vt weight weights
    width with xs xy xyz yes ys yx zero zeros
    """.split()  # noqa: SIM905
)


# Both the letters that the file uses for axes, and the suffixes that it spells as axes.
def find_axis_letters(tree: ast.Module, text: str) -> frozenset[str]:
    rules = (_read_calls, _read_equations, _read_annotations, _read_contracts, _read_sizes)
    return frozenset(
        {*_read_comments(tree, text), *(letter for node in ast.walk(tree) for rule in rules for letter in rule(node))}
    )


# Returns the names of one place that state their axes as a contract does, with their letters, all different. A name of one
# letter may have several letters of axes. A longer name, or a suffix of one letter, counts only if its letters are `known`:
# from other names of the place, or from `letters`.
def select_suffixed(names: Iterable[str], known: Iterable[str] = ()) -> dict[str, str]:
    matches = {name: match for name in names if (match := _ITEM.fullmatch(name)) and _distinct(match["suffix"])}
    plain = {match["suffix"] for match in matches.values() if len(match["name"]) == 1 < len(match["suffix"])}
    shown = {letter for suffix in plain if _are_axes(suffix, _split_letters(suffix.lower()), _AXES) for letter in suffix} | set(
        known
    )
    suffixes = {name: match["suffix"] for name, match in matches.items()}
    return {name: suffix for name, suffix in suffixes.items() if _are_axes(suffix, _split_letters(suffix), shown)}


# All its letters are known as axes, and it is not a word, unless it is spelled as axes.
def _are_axes(suffix: str, parts: Iterable[str], known: Container[str]) -> bool:
    return all(part in known for part in parts) and (suffix in known or suffix.lower() not in _WORDS)


def _split_letters(suffix: str) -> list[str]:
    return [letter for letter in suffix if not letter.isdigit()]


def _distinct(suffix: str) -> bool:
    return len(set(_split_letters(suffix))) == len(_split_letters(suffix))


# `bss2` has the letters `b`, `s`, `s2`.
def split_suffix(suffix: str) -> list[str]:
    return LETTER.findall(suffix)


# `Float[Tensor, "b s d"]` or `ein.contracts.T["bsd"]`.
def read_annotation(node: ast.expr | None) -> list[str]:
    match node:
        case ast.Subscript(slice=ast.Tuple(elts=[_, ast.Constant(value=str(text))])):
            return text.split()
        case ast.Subscript(value=ast.Attribute(attr="T"), slice=ast.Constant(value=str(text))):
            return split_suffix(text)
    return []


# `bsd,dea->bsea`; the text of einops has spaces.
def read_einsum(text: str, spaced: bool) -> tuple[list[list[str]], list[str]] | None:
    left, arrow, right = text.partition("->")
    if not arrow or "." in text or "(" in text:
        return None
    read = str.split if spaced else lambda term: list(term.replace(" ", ""))
    return [read(term) for term in left.split(",")], read(right)


# `einsum("bsd,dea->bsea", z_bsd, Q_dea)`, where a name has the letters of its term.
def _read_calls(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Call(args=[ast.Constant(value=str(text)), *operands]) if read := read_einsum(text, spaced=False):
            terms = zip(read[0], operands, strict=False)
        case ast.Call(args=[*operands, ast.Constant(value=str(text))]) if read := read_einsum(text, spaced=True):
            terms = zip(read[0], operands, strict=False)
        case _:
            return
    if shown := [term for term, operand in terms if len(term) > 1 and _read_suffix(operand) == term]:
        yield from map("".join, shown)
        yield from (letter for term in read[0] for letter in term)


# An equation or a pattern whose result gets a name with just these letters.
def _read_equations(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Assign(targets=[target], value=value) if len(suffix := _read_suffix(target)) > 1:
            for part in ast.walk(value):
                match part:
                    case ast.Constant(value=str(text)) if "->" in text:
                        sides = text.split("->")
                        output = sides[1].replace("(", " ").replace(")", " ")
                        output_letters = output.split() if len(output.split()) > 1 else list(output.strip())
                        if sorted(output_letters) == sorted(suffix):
                            yield from (*output_letters, "".join(suffix))


# `q_bsea: Float[Tensor, "b s e a"]`
def _read_annotations(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.arg(arg=name, annotation=written) | ast.AnnAssign(target=ast.Name(id=name), annotation=written):
            parts = read_annotation(written)
            if len(parts) > 1 and parts == _read_suffix(ast.Name(name)):
                yield from (*parts, "".join(parts))


# `"z_bsd, Q_dea -> q_bsea"`
def _read_contracts(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)) if _CONTRACT.fullmatch(text):
            for term in re.findall(r"\w+", text):
                yield from _read_suffix(ast.Name(term))


def _read_suffix(node: ast.expr) -> list[str]:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    match = NAME.fullmatch(name)
    return split_suffix(match["suffix"]) if match else []


# A legend has at least two lines, one below the other: `# d: hidden`, `B = batch`.
def _read_comments(tree: ast.Module, text: str) -> Iterator[str]:
    comments = [line.strip().lstrip("#") if line.strip().startswith("#") else "" for line in text.splitlines()]
    strings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    for lines in (comments, *(string.splitlines() for string in strings)):
        matches = [ENTRY.match(line) for line in lines]
        for one, other in itertools.pairwise(matches):
            if one and other:
                yield from (one["letter"], other["letter"])


# `B, S, D = z_bsd.shape`
def _read_sizes(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Attribute(value=tensor, attr="shape")):
            sizes = [name.id.lower() for name in names if isinstance(name, ast.Name)]
            parts = _read_suffix(tensor)
            if len(parts) > 1 and sorted(sizes) == sorted(part.lower() for part in parts):
                yield from (*parts, "".join(parts))
