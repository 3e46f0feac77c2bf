"""Which class is a layer in the plan `notation`: its forward line by line, as the program has it?"""

from __future__ import annotations

from collections.abc import Sequence

from einformer.interpreters.torch.classes import Class, Comment
from einformer.interpreters.torch.emit import Emitter
from einformer.interpreters.torch.heads import heads
from einformer.interpreters.torch.lower import block_name, drops, function_name
from einformer.language.weights import key
from einformer.program.operations import Call, Line, Turns


class NotationClass(Class):
    """A specialised layer whose forward is that of its function."""

    def forward(self) -> list[str]:
        """The lines of the forward: what it needs first, then each equation."""
        self.hold()
        functions = self.file.functions
        self.body = list(Emitter(functions[self.layer.name], functions, self.lowering, self).body())
        return [*heads(self.lowering, self.body), *self.body]

    def callee(self, call: Call) -> str:
        """A function, or the module of an instance."""
        if self.has_module(call):
            return f"{block_name(call.turns, self.layer)}.{key(call.instance)}"
        return self.lowering.called("layer", call.function, function_name(call.function))

    def given(self, call: Call) -> Sequence[str]:
        """What a function is given beside tensors: the config, whether it is trained."""
        if self.has_module(call):
            return self.cached(call)
        config = [self.lowering.config] * bool(self.lowering.passed.get(call.function))
        trained = ["self.training"] * drops(self.layers[call.function], self.layers)
        return [*config, *self.cached(call), *trained]

    def cached(self, call: Call) -> Sequence[str]:
        """What a call is given of a cache, where there is one."""
        return ()

    def has_module(self, call: Call) -> bool:
        """Has the layer that is called weights of its own?"""
        return bool(call.instance and self.layers[call.function].weights)

    def turning(self, turns: Turns) -> str:
        """What a loop runs through."""
        return self.blocks.turning(turns.loop, self.lowering)

    def comment_of(self, line: Line, indent: str) -> str:
        """The equation of a line as its author wrote it."""
        assert line.equation is not None
        return Comment.of(line.equation, indent)
