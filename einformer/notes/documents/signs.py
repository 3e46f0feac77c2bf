"""Lists the commands of LaTeX that notes use beyond those of the language, and their replacements."""

from __future__ import annotations

ACCENTS = frozenset(("hat", "tilde", "bar", "overline", "underline", "widehat", "widetilde", "dot", "ddot", "check", "breve"))
LETTERED = frozenset(("mathcal", "mathscr", "mathsf", "mathfrak", "mathit", "textit"))  # another font, another name
WORDS = frozenset(("text", "textrm", "textsf", "texttt", "mathrm", "operatorname", "mathtt", "textnormal", "mbox", "rm"))
OPERATORS = {
    "softmax": "Sm", "Softmax": "Sm", "SoftMax": "Sm", "Sm": "Sm", "SM": "Sm", "ReLU": "relu", "relu": "relu", "Relu": "relu",
    "GELU": "gelu", "gelu": "gelu", "GeLU": "gelu", "SiLU": "silu", "silu": "silu", "swish": "silu", "Swish": "silu",
    "sigmoid": "sigmoid", "Sigmoid": "sigmoid", "softplus": "softplus", "Softplus": "softplus", "Dropout": "Dr", "Dr": "Dr",
    "DR": "Dr", "dropout": "Dr", "LSE": "lse", "lse": "lse", "logsumexp": "lse", "mean": "mean", "Mean": "mean", "var": "var",
    "Var": "var", "cumsum": "cumsum", "sum": "sum", "min": "min", "max": "max", "exp": "exp", "log": "log", "tanh": "tanh",
    "Tanh": "tanh", "sin": "sin", "cos": "cos", "abs": "abs", "floor": "floor", "ceil": "ceil", "gelutanh": "gelutanh",
    "where": "where", "lb": "log2", "mod": "mod",
}  # fmt: skip
TIED = "\\:"  # follows a sum whose condition ties its index to several, `\\sum_{i=1, j \\neq k \\neq i}`, which it may be over
DOTS = ("dots", "ldots", "cdots", "dotsc", "dotsb", "dotsm", "hdots")
DERIVATIVES = ("partial", "nabla")
DERIVED = "\\!"  # stands before a name by which something is derived: `\\partial x_i` below a bar
OF_COMMA = "comma"  # ends the name of a derivative, `T_{ij,k}`
CONTRACTED = "trace"  # ends the name of a tensor that lost an index above and below
OF_AUTHOR = "ƒ"  # ends the name of a function that the language does not have, so that it takes arguments
RESPELLED = {
    "equiv": "=", "coloneqq": "=", "triangleq": "=", "defeq": "=", "ln": "\\log ", "odot": "\\cdot ", "ast": "*",
    "otimes": "\\cdot ", "lbrack": "(", "rbrack": ")", "lbrace": "\\{", "rbrace": "\\}", "leqslant": "\\leq ",
    "geqslant": "\\geq ", "mapsfrom": "\\leftarrow ", "dfrac": "\\frac", "tfrac": "\\frac", "cfrac": "\\frac", "lt": "<",
    "gt": ">", "nn": "\\\\", "newline": "\\\\", "cr": "\\\\", "inf": "\\infty ", "left": "", "right": "", "displaystyle": "",
    "limits": "", "hbar": "\\mathrm{hbar} ",
}  # fmt: skip
BOLD = ("mathbf", "boldsymbol", "bm", "bold", "vec", "textbf")
UNREAD = {
    **dict.fromkeys(BOLD, "vectors and matrices in bold"),
    **dict.fromkeys(("top", "intercal", "dagger"), "a transposed matrix"), "int": "an integral", "oint": "an integral",
    "prod": "a product sign", "partial": "a derivative", "nabla": "a derivative", "lim": "a limit", "dots": "dots",
    "ldots": "dots", "cdots": "dots", "vdots": "dots", "ddots": "dots", "dotsc": "dots", "mathbb": "a set or an expectation",
    "mid": "a condition in a probability", "vert": "a norm", "Vert": "a norm", "|": "a norm",
    "overline": "a bar over an index", "substack": "a condition below a sum",
    "oplus": "a sum of spaces", "circ": "a composition", "star": "a convolution",
    "pm": "two signs", "mp": "two signs", "binom": "a binomial", "stackrel": "words over a sign",
    "overset": "words over a sign", "underset": "words under a sign", "underbrace": "words under a brace",
    "overbrace": "words over a brace", "in": "a set", "{": "a set", "}": "a set", "langle": "an inner product",
    "rangle": "an inner product", "wedge": "a wedge", "forall": "words", "exists": "words", "not": "a negation",
    "perp": "words", "cup": "a set", "cap": "a set", "subset": "a set", "setminus": "a set",
    "arg": "an argument of the largest", "argmax": "an argument of the largest", "argmin": "an argument of the largest",
}  # fmt: skip
MATRICES = frozenset(("matrix", "pmatrix", "bmatrix", "vmatrix", "Bmatrix", "array", "smallmatrix", "tabular"))
RELATIONS = frozenset(
    ("approx", "sim", "simeq", "propto", "cong", "to", "rightarrow", "longrightarrow", "mapsto", "Rightarrow", "implies", "iff",
     "Leftrightarrow", "Longrightarrow", "leq", "le", "geq", "ge", "ll", "gg", "neq", "ne", "subset", "lesssim", "gtrsim",
     "rightarrow", "hookrightarrow", "leftrightarrow", "asymp", "prec", "succ", "longmapsto", "in", "xrightarrow")
)  # fmt: skip
CONCLUSIONS = frozenset(("Rightarrow", "implies", "iff", "Leftrightarrow", "Longrightarrow", "Longleftrightarrow", "therefore"))
_PARTING = """
    and where with for if or s.t such that when since because so then as all in at on of i.e e.g thus hence while but else
    from by"""
PARTING = frozenset(_PARTING.split())  # words between statements
