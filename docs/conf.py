"""Sphinx, with MyST for pages and notebooks; `make docs` fails on any warning."""

from pygments.lexer import RegexLexer, bygroups, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, Text
from sphinx.application import Sphinx

from einformer.language.primitives import NAMES

project = "einformer"
author = "The einformer authors"
extensions = ["myst_nb"]
myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_raise_on_error = True
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "einformer"
html_static_path = ["style.css"]
html_css_files = ["style.css"]


class EinformerLexer(RegexLexer):
    """The language as it is read: names large, their subscripts apart."""

    name = "einformer"
    aliases = ("einformer",)
    tokens = {  # noqa: RUF012
        "root": [
            (r"# E\d{3}$", Name.Variable),
            (r"[#@].*$", Comment),
            (r"^(axes|scalars|layer|model)\b", Keyword),
            (r"\b(weights|buffers|return|for|causal|in)\b", Keyword),
            (r"\b(and|or|not|mod)\b", Operator.Word),
            (words(sorted(name for name in NAMES if name.isalnum()), prefix=r"\b", suffix=r"(?=\b|_)"), Name.Builtin),
            (r"(_)(\{)", bygroups(Punctuation, Punctuation), "subscript"),
            (r"(_)((?:[^\W\d_]['′]*|\d)+)", bygroups(Punctuation, Name.Tag)),
            (r"\d+(\.\d+)?(e[+-]?\d+)?", Number),
            (r"[^\W\d_][^\W_]*['′]*", Name),
            (r"<-|->|[<>=!]=|[-+/^=<>?:]", Operator),
            (r"[][(){},]", Punctuation),
            (r"\s+|.", Text),
        ],
        "subscript": [(r"\{", Punctuation, "#push"), (r"\}", Punctuation, "#pop"), (r"[^{}]", Name.Tag)],
    }


def setup(app: Sphinx) -> None:
    app.add_lexer("einformer", EinformerLexer)
