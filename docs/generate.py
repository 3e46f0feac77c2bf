"""Writes the pages that are made of data: errors, claims, errata, equations, sources, models, matrices, architectures."""

import contextlib
import functools
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from sympy import Expr

from einformer.architectures import models as list_published
from einformer.architectures.texts import elaborate
from einformer.cli import main
from einformer.errors import EinformerError, Rule, Source, catalogue
from einformer.huggingface import families, wrappers
from einformer.interpreters.count.algebra import list_letters, show
from einformer.interpreters.diagram import draw_masks
from einformer.interpreters.mathml import mathml
from einformer.language.parser import parse_expression
from einformer.language.sizes import Legend
from einformer.notes import errata as slips
from einformer.notes import notations, references, shelf, worked
from einformer.notes.citations import shipped
from einformer.notes.claims import Verdict, judge, summary
from einformer.notes.claims import claims as published
from einformer.notes.rendering import print_latex
from einformer.notes.sources import Publication
from einformer.notes.sources import sources as documents
from einformer.objects import Specification, bind_from
from einformer.report.shipped import Architecture, Shipped, ShippedModel, list_shipped
from einformer.targets import examine, load

HERE = Path(__file__).parent
PARTS = {
    "E0": "Characters and sizes of texts",
    "E1": "Grammar",
    "E2": "Names",
    "E3": "Indices, sums and slots",
    "E4": "Operators and calls",
    "E5": "Time",
    "E6": "Sizes, scalars and published models",
    "E7": "Inputs, weights and contracts",
    "E8": "Files",
    "E9": "Code under test",
}
HEAD = """# Errors

<!-- Made of einformer/errors.toml by docs/generate.py. -->

An error has a code, the line with a caret under the place, the sizes that are known and where each was given, the rule,
and a correction:

```text
{message}
```

A text is checked as far as its errors allow, and one mistake gives one message. `einformer explain {code}` prints an entry
of this page. Some examples end with a line of Python. There `text` is the text above that line, and `spec` the same text
parsed. `module` is one that transformers' GPT-2 can be loaded into, and `theirs` has the weights of GPT-2. `contracts` is
`einformer.contracts`, and `testing` is `einformer.testing`. A command reads the text above it from the file that it names.
"""


def errors() -> str:
    """The page of all errors."""
    rule = catalogue()["E307"]
    (finding,) = examine(Source("up.ein", rule.bad))[1]
    parts = [HEAD.format(message=finding, code=rule.code)]
    for part, rules in groupby(catalogue().values(), lambda rule: rule.code[:2]):
        parts += [f"## {PARTS[part]}\n", *(entry for rule in rules for entry in _entry(rule))]
    return "\n".join(parts)


def _entry(rule: Rule) -> Iterator[str]:
    yield f"### {rule.code}: {rule.title}\n"
    yield f"{rule.rule[0].upper()}{rule.rule[1:]}.\n"
    yield f"{rule.why}\n"
    yield from _example("Breaks it:", rule.bad)
    yield from _example("Keeps it:", rule.good)


def _example(label: str, example: str) -> Iterator[str]:
    """A text, a line of Python under it, and a command that reads it."""
    text, prompt, line = example.partition("$ einformer " if "$ einformer " in example else ">>> ")
    yield f"{label}\n"
    if text:
        yield f"```{_language(text, line)}\n{text.rstrip()}\n```\n"
    if prompt:
        yield f"```{'sh' if prompt.startswith('$') else 'pycon'}\n{prompt.removeprefix('$ ')}{line.rstrip()}\n```\n"


def _language(text: str, line: str) -> str:
    if text.startswith(("{", "[tool")):
        return "json" if text.startswith("{") else "toml"
    return {".md": "markdown", ".py": "python"}.get(line.rstrip()[-3:], "einformer")


CLAIMS = """# Claims

<!-- Made of einformer/notes/claims by docs/generate.py. -->

This page compares formulas and numbers that documents, papers, model cards and public threads print with those that follow
from the equations. Every verdict is computed when the site is built: the formula is derived from the text of a model, or the
number from its config, and compared with the printed one.

{summary}.

A formula *holds* if it is the derived one, *holds to leading order* if it claims no more than that in some letters and is
right about it, *does not hold*, or *contradicts itself* if no model can have the sizes it gives. A formula that einformer
cannot derive yet is *not derived*. Formulas are printed in the letters of their source and derived in ours: `A` heads, `B`
sequences, `D` hidden, `E` the expansion of the MLP, `F` its hidden size, `G` heads of keys, `H` the size of a head, `K` the
longest sequence, `L` layers, `S` positions, `T` and `R` tensor and data parallel ranks, `V` vocabulary, `X` experts, `p` bytes
of a number, `N` parameters (in S000, S002 and S003 tokens).
"""


def claims() -> str:
    """The page of all claims."""
    verdicts = list(map(judge, published()))
    return f"{CLAIMS.format(summary=summary(verdicts))}\n{_table(CLAIM, map(_claim, verdicts))}"


CLAIM = ("verdict", "claim", "what of", "printed", "derived", "place", "source")


def _claim(verdict: Verdict) -> tuple[str, ...]:
    claim = verdict.claim
    derived = f"`{verdict.derived}`" if verdict.found else verdict.derived
    return verdict.outcome, claim.id, claim.says, f"`{claim.printed}`", derived, claim.place, claim.source


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown. `tables.js` makes a filter of it."""
    return "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in (heads, ["---"] * len(heads), *rows))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


ERRATA = """# Errata

<!-- Made of einformer/notes/errata by docs/generate.py. -->

This page lists errors in six documents: the printed form, the corrected form, and a check that tells them apart. Both forms
go through the same check when the site is built. The printed one must fail it, and the corrected one must pass.

{summary}.

Equations are computed in float64 for random numbers, or for those that the document prints: they are *equal*, or *off by* the
largest difference of their sides. Lines without a meaning are refused with a code of [Errors](errors.md). Correct formulas
are derived as on the page of [Claims](claims.md), in its letters. Code is run. Where nothing can be computed, the row gives
the reason.
"""
WORKED = """## The worked example

S004 computes one head by hand, for the word "horizon". It says that scores are divided by the root of the size of a head, and
then prints what comes out without; for the output it goes on with weights of four digits. Both versions, run when this page
is made:

| | printed | without the scale | with the scale |
| --- | --- | --- | --- |
{rows}
"""


def errata() -> str:
    """The page of all errata."""
    verdicts = list(map(slips.judge, slips.errata()))
    table = _table(ERRATUM, map(_erratum, verdicts))
    steps = "\n".join(map(_step, worked.list_steps()))
    return "\n".join([ERRATA.format(summary=slips.summary(verdicts)), table, "", WORKED.format(rows=steps)])


ERRATUM = ("verdict", "erratum", "what of", "printed", "corrected", "place", "kind", "source")


def _erratum(verdict: slips.ErratumVerdict) -> tuple[str, ...]:
    """Both forms, and under each the finding of its check."""
    row = verdict.erratum
    name = f'<span id="{row.id.lower()}">{row.id}</span>'
    printed, corrected = (
        "<br>".join(filter(None, form)) for form in ((row.printed, verdict.printed), (row.corrected, verdict.corrected))
    )
    says = f"{row.says}{f' (no check: {row.why})' * bool(row.why)}"
    return verdict.outcome, name, says, printed, corrected, row.place, row.kind, row.source


def _step(step: worked.Quantity) -> str:
    erratum = f'<a href="#{step.erratum.lower()}">{step.erratum}</a>'
    return f"| {step.name} ({erratum}) | {step.printed} | {step.unscaled} | {step.scaled} |"


SOURCES = """# Sources

<!-- Made of einformer/notes/sources.toml and the shipped texts by docs/generate.py. -->

The note after `@`, beside an equation or a scalar of a shipped text, names its source: a document of this page by its key, and
a place in it, `@ rope 3.4.2 eq 34`. Several sources have `;` between them. The note of a layer holds for its equations that
have no note of their own. All equations stand under one, {count} with the scalars that are formulas of documents. Tests hold
that every place is there, and that equations which are the same but for the names of axes name the same one; the exceptions
stand in a test.

`goon` and S000 to S004 are the documents of [Notes](notes.md), and `eq 3` is the third equation of the place among their
entries. What is published nowhere but as code names the family and the class of `transformers` that computes it.

`einformer notes llama` lists the equations of a text with what they follow, `einformer notes --cites rope` the equations of
all texts that follow a source. In a text of your own, what follows `@` is free.

{table}
"""
SAID = ("key", "document", "what of it", "named by")
MOST = 12  # texts that are named one by one


def sources() -> str:
    """The page of all sources, with the texts that name each."""
    cited = [(citation, each.text) for each in shipped() for citation in each.cited]
    texts = {key: {text for citation, text in cited if citation.source and citation.source.key == key} for key in documents()}
    table = _table(SAID, (_source(source, sorted(texts[key])) for key, source in documents().items()))
    return SOURCES.format(count=f"{len(shipped()):,}", table=table)


def _source(source: Publication, texts: list[str]) -> tuple[str, ...]:
    title = f"[{source.title}]({source.url})" if source.url else source.title
    by = " ".join(filter(None, (source.author, str(source.year or ""))))
    places = "; ".join(f"{place}: {there}" if place else there for place, there in source.places.items())
    named = " ".join(texts) if len(texts) <= MOST else f"{len(texts)} texts"
    pages = {"claims": {row.source for row in published()}, "errata": {row.source for row in slips.errata()}}
    told = (f"[{page}]({page}.md)" for page, known in pages.items() if str(source) in known)
    return f"`{source.key}`", f"{by}, {title}", places, ", ".join(filter(None, (named, *told)))


EQUATIONS = """# Equations

<!-- Made of einformer/notes/references by docs/generate.py. -->

This page lists every equation and formula of the [documents](notes.md#equations) with its counterpart here: the *line* of a
text that states it, after the arrow the place of that line in the PyTorch that `einformer source` prints, the test that
compares the two, or a test that shows the equation by itself (`rope::angles…` is `test_angles…` of `tests/test_rope.py`).
What is *computed* has both sides computed, for random numbers, when this page is made. The verdict on a formula is that of
[Claims](claims.md); numbers of [Errata](errata.md) stand beside what is wrong in print.

{summary}
"""


def equations() -> str:
    """The page of all equations."""
    found = {document: references.rows(document) for document in references.documents()}
    tests = tomllib.loads((HERE.parent / "tests" / "data" / "shown.toml").read_text(encoding="utf-8"))
    counts = [f"* {document}: {references.summary(rows)}." for document, rows in found.items()]
    parts = [EQUATIONS.format(summary="\n".join(counts))]
    for document, rows in found.items():
        parts.append(f"## {document}\n")
        for place, group in groupby(rows, lambda row: row.place):
            parts += [f"**{place}**\n", *(f"{_equation(row)}\n: {row.shown(find_test(row, tests))}\n" for row in group)]
    return "\n".join(parts)


def find_test(row: references.ReferenceRow, tests: Mapping[str, Any]) -> str:
    """The test of a row: its own, or the one of the text that has its line."""
    own = {(each["place"], each["says"]): each["test"] for each in tests.get(row.document, {}).get("equations", ())}
    text = (row.source or row.line).partition(".")[0]
    claims = tests.get(row.document, {}).get("claims", {})
    return str(claims.get(row.claim) or own.get((row.place, row.says)) or tests["texts"].get(text, ""))


def _equation(row: references.ReferenceRow) -> str:
    """An equation as code, or the words of a formula and the formula; and what is wrong with the print."""
    words, _, formula = row.says.rpartition(": ") if row.claim else ("", "", row.says)
    says = f"{words}: `{formula}`" if words else f"`{formula}`"
    return f"{says} ({row.errata})" if row.errata else says


MATRICES = """# Matrices

<!-- Made of einformer/notes/texts and einformer/architectures by docs/generate.py. -->

The texts of three documents that write matrices, as `einformer latex s000 --letters s000` prints them, and two models.
[Notes](notes.md#matrices) says how indices become matrices.
"""
SHOWN = (
    ("s000", "s000", "S000"),
    ("s002", "s002", "S002"),
    ("s003", "s003", "S003"),
    ("s003", "vaswani", "S003 in the letters of Vaswani et al."),
    ("gpt2", "ours", "GPT-2"),
    ("llama", "ours", "Llama"),
)


def matrices() -> str:
    """The page of texts in matrices."""
    parts = [MATRICES]
    for text, convention, title in SHOWN:
        tex = print_latex(elaborate(shelf.source(text))[0], convention, "matrix")
        parts.append(f"## {title}\n\n$$\n{tex}\n$$\n")
    return "\n".join(parts)


ROSETTA = """# Rosetta

<!-- Made of einformer/notes/notations.toml by docs/generate.py. -->

This table translates the letters of sizes: each row has the letters of a document, a paper or a code for ours. `einformer notes
--rosetta` prints it, and `--letters NAME` writes counts and LaTeX in the letters of a row.

{table}
"""


def rosetta() -> str:
    """The page of letters, by document."""
    (_, *ours), (_, *means), *rows = notations.rosetta()
    heads = ["letters of", *(f"`{letter}` {meaning}" for letter, meaning in zip(ours, means, strict=True))]
    return ROSETTA.format(table=_table(heads, (["" if cell == "" else f"`{cell}`" for cell in row] for row in rows)))


MODELS = """# Model types

<!-- Made of the tables in einformer/huggingface by docs/generate.py. -->

Every `model_type` of transformers {version} with a causal language model or a model of images and text, and whether
einformer reads its `config.json`. What is read has the parameters, FLOPs and logits of transformers; a test compares them.

* *read*: the config follows the text or texts beside it. *as* another type: of text alone it computes the same.
* *text part*: the config holds other parts too. Its decoder of text is read and named so in every output. The other parts are
  listed by name, and not counted.
* *refused*: an error names the form that is missing.

{summary}

| `model_type` | state | text, or the form that is missing |
| --- | --- | --- |
{rows}
"""


def models() -> str:
    """The page of model types."""
    from transformers import __version__
    from transformers.models.auto import modeling_auto

    causal = set(modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    images = set(modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)
    states = {kind: _find_state(kind) for kind in sorted({*causal, *images, *families.families(), *wrappers.alike()})}
    rows = "\n".join(f"| `{kind}` | {state} | {_cell(about)} |" for kind, (state, about) in states.items())
    counts = [_count_states(states, "causal language models", causal), _count_states(states, "other models", images - causal)]
    return MODELS.format(version=__version__, summary="\n".join(counts), rows=rows)


def _find_state(kind: str) -> tuple[str, str]:
    if kind in families.families():
        return "read", ", ".join(f"`{text}`" for text in sorted(families.architectures(kind)))
    if kind in wrappers.alike():
        return "read", f"as `{wrappers.alike()[kind]}`"
    if part := (wrappers.wrappers() | wrappers.flat()).get(kind):
        return "text part", f"`{part}`"
    return "refused", wrappers.refused()[kind]


def _count_states(states: Mapping[str, tuple[str, str]], name: str, kinds: set[str]) -> str:
    counts = {state: sum(states[kind][0] == state for kind in kinds) for state in ("read", "text part", "refused")}
    return f"* {len(kinds)} {name}: {', '.join(f'{count} {state}' for state, count in counts.items())}."


ARCHITECTURES = """# Architectures

The texts that ship, as `einformer list` names them, each with its picture, its equations, its counts, and what it changes.
"""
ARCHITECTURE = """---
orphan: true  # in the side bar of every page, all of these would be most of the site
---

# {name}

{about}. Attention: {attention}.{types} One of [all architectures](index.md).

## Picture

A box is an equation, an arrow a tensor that it reads, with its shape beside it. The thick line is the residual stream.

```{{raw}} html
<div class="picture">
{picture}
</div>
```

## Text

As `einformer source {name} --text` prints it, with the layers of the library.

```einformer
{text}
```

## Equations

In the notation of documents, as MathML. `einformer latex {name}` prints them as LaTeX.

```{{raw}} html
<div class="formula">{equations}</div>
```

## Counts

{counts}
{sizes}
{beside}"""
BESIDE = """## Beside {parent}

As `einformer diff {parent} {name}` prints it: the nearest of {parents}.

```diff
{difference}
```
"""
PARENTS = ("gpt2", "llama", "gemma2", "mixtral", "deepseek_v3", "mamba2", "qwen3_next", "bert")


def architectures(shipped: Shipped) -> str:
    """The page that lists the shipped texts."""
    rows = (
        (f"[{row.name}]({row.name}.md)", row.about, row.attention, " ".join(map(_code, row.families)))
        for row in shipped.architectures
    )
    return f"{ARCHITECTURES}\n{_table(('text', 'what it is', 'attention', 'model types'), rows)}\n"


_load = functools.cache(load)


def architecture(row: Architecture, models: Sequence[ShippedModel]) -> str:
    """The page of a shipped text."""
    spec = _load(row.name)
    parents = PARENTS[: PARENTS.index(row.name)] if row.name in PARENTS else PARENTS
    beside = [(name, str(_load(name).diff(spec))) for name in parents]
    nearest = min(beside, key=lambda pair: sum(line[:1] in "+-" for line in pair[1].split("\n")), default=None)
    sizes = "\n".join(f"| {model.name} | {model.parameters:,} |" for model in models if model.architecture == row.name)
    return ARCHITECTURE.format(
        name=row.name,
        about=row.about[0].upper() + row.about[1:],
        attention=row.attention or "none",
        types=f" Model types: {', '.join(map(_code, row.families))}." if row.families else "",
        picture=_fit(spec.draw(width=860) + _draw_masks(spec, row.name)),
        text=str(spec).rstrip(),
        equations=spec.latex(form="mathml"),
        counts="\n".join(_count(spec)),
        sizes=f"\n| published model | parameters |\n| --- | --- |\n{sizes}\n" if sizes else "",
        beside=BESIDE.format(parent=nearest[0], name=row.name, parents=", ".join(parents), difference=nearest[1])
        if nearest
        else "",
    )


def _draw_masks(spec: Specification, text: str) -> str:
    """The masks of the first published model of a text that has any, else those that it has at all sizes."""
    named = (bind_from(spec, row.sizes, row.source) for row in list_published().values() if row.architecture == text)
    places = chain(((model.spec.tree, model.legend) for model in named), [(spec.tree, Legend.of(spec.tree))])
    pictures = (draw_masks(tree, legend, 860) for tree, legend in places)
    return next((picture for picture in pictures if 'class="seen"' in picture), "")


def _count(spec: Specification) -> Iterator[str]:
    """Formulas in the letters of the legend; a refused one says why."""
    counts = {"parameters": lambda: spec.parameters, "FLOPs of a forward pass": spec.flops}
    for name, count in counts.items():
        try:
            yield f'{name}\n: ```{{raw}} html\n  <div class="formula">{_formula(count(), spec)}</div>\n  ```\n'
        except EinformerError as error:
            yield f"{name}\n: {error.findings[0].message}: `einformer count` says them for a `config.json`.\n"


def _formula(count: Expr, spec: Specification) -> str:
    """A formula of letters of the legend as MathML."""
    return mathml(parse_expression(show(count, list_letters(spec.tree), "latex"), spec.tree))


def _code(text: str) -> str:
    return f"`{text}`"


PAGES: Mapping[str, Callable[[], str]] = {
    "errors": errors,
    "claims": claims,
    "errata": errata,
    "equations": equations,
    "sources": sources,
    "models": models,
    "matrices": matrices,
    "rosetta": rosetta,
}


PICTURES: Mapping[str, Sequence[str]] = {  # of pages that people write, and the command that draws each
    "attention": ("draw", "minimal", "--layer", "Attention", "--width", "860"),
    "placement": ("draw", "docs/many_devices.md", "--set", "D=64,A=4", "--mesh", "tp=2", "--shard", "tp: a"),
    "shares": ("plot", "llama-3-8b", "--kind", "flops"),
    "memory": ("plot", "llama-3-8b", "--kind", "memory"),
    "cache": ("plot", "mistral-7b-v0.1", "--kind", "cache"),
    "roofline": ("plot", "gpt2", "--kind", "roofline"),
}


def _draw(command: Sequence[str]) -> str:
    """The picture of a command for a page: its ink is that of the page, which may be dark."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(None), contextlib.chdir(HERE.parent):
        path = Path(folder) / "picture.svg"
        assert main([*command, "--out", str(path)]) == 0
        svg = path.read_text(encoding="utf-8")
    svg = svg[svg.index("<svg") :].replace("#222222", "currentColor").replace("fill: #ffffff", "fill: none")
    return f'<div class="picture">{_fit(svg)}</div>'


def _fit(svg: str) -> str:
    """The picture, which a page may make smaller by a fifth."""
    return re.sub(r'<svg (?=[^>]* width="([\d.]+(?:pt)?)")', _bound, svg)


def _bound(head: re.Match[str]) -> str:
    return f'{head[0]}style="min-width: calc(0.8 * {head[1]}{"" if head[1].endswith("pt") else "px"})" '


def write_pages(folder: Path) -> None:
    """Writes the pages and pictures that are made when the site is built and not committed, on all processors."""
    for name in ("architectures", "pictures"):
        (folder / name).mkdir(exist_ok=True)
    shipped = list_shipped()
    with ProcessPoolExecutor() as pool:
        made = {f"{name}.md": pool.submit(make) for name, make in PAGES.items()}
        made |= {f"pictures/{name}.svg": pool.submit(_draw, command) for name, command in PICTURES.items()}
        made["architectures/index.md"] = pool.submit(architectures, shipped)
        for row in shipped.architectures:
            made[f"architectures/{row.name}.md"] = pool.submit(architecture, row, shipped.models)
    for name, page in made.items():
        (folder / name).write_text(page.result(), encoding="utf-8")
