"""Is a specification well formed: every name declared and used, every index, slot and sum as the rules say?

`check` returns the elaborated spec (each sum explicit, each instance named) and all findings. An equation is examined in
steps (names, slots, scope); a step runs only where the one before it found nothing, and bodies are examined when the legend is
right, so that one slip gives one message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from einformer.errors import EinformerError, Finding, Span
from einformer.language.body import Body
from einformer.language.declarations import declarations, unused
from einformer.language.instances import calls, with_weights
from einformer.language.meant import suggested
from einformer.language.parser import MAXIMUM_FINDINGS, resolve_layer
from einformer.language.recursion import check_references
from einformer.language.sizes import Legend, Value
from einformer.language.tree import Layer, Spec

Claims = Callable[[Spec, Legend], tuple[Finding, ...]]

_EMPTY = Spec("", (), (), ())
_OF_A_DECLARATION = ("E201", "E204", "E304", "E307", "E308")


def check(
    spec: Spec,
    prelude: Spec = _EMPTY,
    values: Mapping[str, Value] | None = None,
    origins: Mapping[str, str] | None = None,
    claims: Claims = lambda spec, legend: (),
) -> tuple[Spec, tuple[Finding, ...]]:
    """The elaborated spec and every finding in the order of the text; layers it calls from `prelude` become its own.

    With `values`, the sizes bound, groups and axes are compared as numbers; `origins` say where each came from. What is
    well formed is asked what it `claims`.
    """
    spec = with_prelude(spec, prelude)
    try:
        check_references(spec)
    except EinformerError as error:
        return spec, error.findings
    legend = Legend.of(spec, values, origins)
    if findings := list(declarations(spec, legend)):
        return spec, _shown(findings, spec)
    layers = {layer.name: layer for layer in reversed(spec.layers)}
    weighted = with_weights(layers)
    checked, idle, unsound = [], list[Finding](), set[str]()
    for layer in spec.layers:
        body = Body(layer, layers, legend, frozenset(unsound))
        try:
            checked.append(body.checked(weighted))
        except EinformerError as error:  # a size that cannot be multiplied out
            checked.append(layer)
            body.findings += error.findings
        findings += [_at_call(finding, layer, spec) for finding in body.findings]
        idle += body.unused
        unsound |= {layer.name} if body.findings else set()
    elaborated = replace(spec, layers=tuple(checked))
    if not findings:
        unread = [f"{finding.message} ({finding.span})" for finding in idle]  # a mask, perhaps, that the scores lack
        findings = [replace(finding, facts=(*finding.facts, *unread)) for finding in claims(elaborated, legend)]
    if not findings:  # a value that is given may leave what its default was made of unused
        findings = idle or (list(unused(spec)) if values is None else [])
    return elaborated, _shown(findings, spec)


def _shown(findings: list[Finding], spec: Spec) -> tuple[Finding, ...]:
    """The findings in the order of the text, each once."""
    findings.sort(key=lambda finding: (finding.span.source is not spec.span.source, finding.span.start))
    return tuple(_first_places(map(suggested, _first_places(findings)[:MAXIMUM_FINDINGS])))


def _at_call(finding: Finding, layer: Layer, spec: Spec) -> Finding:
    """What a layer of the prelude lacks is told at its first call, since its text is not the reader's."""
    for other in (other for other in spec.layers if layer.span.source is not spec.span.source is other.span.source):
        names = {layer.name, *(weight.name for weight in other.weights if weight.layer == layer.name)}
        if call := next((call for call in calls(other) if call.name in names), None):
            return replace(finding, span=call.span, facts=(*finding.facts, f"`{layer.name}` needs it ({finding.span})"))
    return finding


def _first_places(findings: Iterable[Finding]) -> list[Finding]:
    """Each finding once; of those that say what one declaration lacks or is, the first of the places that need it."""
    first: dict[tuple[str, str, Span | None], Finding] = {}
    for finding in findings:
        place = None if finding.code in _OF_A_DECLARATION else finding.span
        first.setdefault((finding.code, finding.message, place), finding)
    return list(first.values())


def with_prelude(spec: Spec, prelude: Spec) -> Spec:
    """The spec with the layers of the prelude that it calls, directly or not, and does not define itself."""
    letters = {axis.letter for axis in spec.axes}
    available = {layer.name: layer for layer in prelude.layers}
    layers = {layer.name: layer for layer in spec.layers}
    wanted = list(layers.values())
    for layer in wanted:
        names = [call.name for call in calls(layer)] + [w.layer for w in layer.weights]
        for name in names:
            if name in available and name not in layers:
                layers[name] = resolve_layer(available[name], letters)
                wanted.append(layers[name])
    own = {layer.name for layer in spec.layers}
    added = [layer for name, layer in layers.items() if name not in own]
    return replace(spec, layers=(*added, *spec.layers))
