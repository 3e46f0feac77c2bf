"""Which pages are made of data? `python docs/generate.py` writes them: errors.md of the catalogue of errors."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from einformer.errors import Rule, Source, catalogue
from einformer.model import examine

HERE = Path(__file__).parent
PARTS = {
    "E0": "Characters and sizes of texts",
    "E1": "Grammar",
    "E2": "Names",
    "E3": "Indices, sums and slots",
    "E4": "Operators and calls",
    "E5": "Time",
    "E6": "Sizes, scalars and published models",
    "E7": "Inputs and weights",
    "E8": "Files",
}
HEAD = """# Errors

<!-- Made of einformer/errors.toml by docs/generate.py. -->

What is wrong is said with a code, the line and a caret under the place, what is known of the sizes and where each was
given, the rule, and what to write instead:

```text
{message}
```

A text is checked as far as its errors allow, and one slip is one message. `einformer explain {code}` prints an entry of
this page. Where an example ends with a line of Python, `text` is what stands above that line and `spec` that text parsed;
`module` is one that transformers' GPT-2 can be loaded into, `theirs` the weights of that, and `saved` that of
`einformer.interpreters.torch.saved`.
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
    """A text in the language, a config.json, or a text with a line of Python under it."""
    text, prompt, line = example.partition(">>> ")
    yield f"{label}\n"
    if text:
        yield f"```{'json' if text.startswith('{') else 'einformer'}\n{text.rstrip()}\n```\n"
    if prompt:
        yield f"```pycon\n{prompt}{line.rstrip()}\n```\n"


if __name__ == "__main__":
    (HERE / "errors.md").write_text(errors(), encoding="utf-8")
