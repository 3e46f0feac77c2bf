"""Times commands, checks, the door of a layer and a checkpoint: seconds of the processor, since others may use it too."""

from __future__ import annotations

import json
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import einformer as ein
from einformer.architectures import texts
from einformer.interpreters.torch.plan import PLANS
from tests.benchmarks.timing import Place, Row, write_seconds
from tests.test_cost import body

COMMAND = "import sys; from einformer.cli import main; sys.exit(main())"
COMMANDS = ("--help", "check gpt2", "count gpt2 --json", "latex gpt2", "list", "claims", "notes")
FIRST_TOKEN = """import sys, torch, einformer as ein
torch.set_num_threads(1)
module = ein.load("llama").bind(D=64, A=4, G=2, F=128, L=2, V=256).build().eval()
module.generate(torch.zeros(1, 4, dtype=torch.long), max_new_tokens=1)"""
LONG = """
axes
  b: B
  s: S
  d: D
model Long(z_bsd) -> z_bsd causal in s:
  weights W_dd'
  m_ss' = where(s' <= s, 0, -inf)
"""
EQUATION = "  z_bsd <- z_bsd + Sm_s'(z_bsd' z_bs'd' + m_ss') z_bs'd'' W_dd''\n"
LAYER = """axes b, s, d
layer Cubic(z_bsd) -> z_bsd:
  weights W_dd'
  return gelu(z_bsd' W_d'd)
"""
GIGABYTE = 1 << 30


def read_processor() -> float:
    """Seconds of the processor so far, of this process and of those that it started."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def check_texts() -> None:
    for name in texts.shipped():
        ein.load(name)


def list_works() -> Iterator[tuple[str, Callable[[], object], int]]:
    """Every work, and how often it is timed."""
    for code in ("pass", "import numpy", "import einformer", "import torch"):
        yield f"`python -c '{code}'`", partial(run, "-c", code), 5
    yield "import, a small Llama, its first token", partial(run, "-c", FIRST_TOKEN), 3
    for call in COMMANDS:
        yield f"`einformer {call}`", partial(run, "-c", COMMAND, *call.split()), 3 if call in COMMANDS[-3:] else 7
    yield "parse and check every text that ships", check_texts, 3
    yield "parse and check GPT-2", partial(ein.load, "gpt2"), 15
    for plan in PLANS:
        yield f"emit GPT-2 XL, `{plan}`", partial(ein.model("gpt2-xl").source, plan), 15
    yield "LaTeX of GPT-2", ein.load("gpt2").latex, 15
    for equations in (50, 200):
        yield f"parse and check {equations} equations", partial(ein.parse, LONG + EQUATION * equations + "  return z_bsd\n"), 3
    for equations in (200, 800):
        yield f"parse and check {equations} equations, each with a name", partial(ein.parse, body(equations)), 3


def measure_hosts(place: Place) -> Iterator[Row]:
    for work, call, times in list_works():
        seconds = timeit.repeat(call, repeat=times, number=1, timer=read_processor)
        yield {"work": work, "processor time": write_seconds(statistics.median(seconds))}


# ------------------------------------------------------------------------------------------------------------- the door


def measure_door(place: Place) -> Iterator[Row]:
    """The least of many rounds in seconds of the processor: the work of others only adds to it."""
    import torch
    from torch import nn
    from torch.nn import functional as fn

    torch.set_num_threads(1)
    emitted: Any = ein.parse(LAYER).bind(D=4).build()
    z, matrix = torch.randn(1, 2, 4), torch.randn(4, 4)
    hand = nn.Sequential(nn.Linear(4, 4, bias=False), nn.GELU())
    calls: dict[str, Callable[[Any], Any]] = {
        "the bare calls of torch": lambda z: fn.gelu(fn.linear(z, matrix.T)),
        "`nn.Linear` and `nn.GELU`": hand,
        "einformer, the class of the file": lambda z: nn.Module.__call__(emitted, z),
        "einformer, with its door": emitted,
    }
    with torch.no_grad():
        least = {name: min(_time_calls(call, z)) for name, call in calls.items()}
    bare = next(iter(least.values()))
    for name, seconds in least.items():
        yield {"call": name, "time": write_seconds(seconds), "above the bare calls": f"{(seconds - bare) * 1e6:.1f} µs"}


def _time_calls(call: Callable[[Any], Any], z: Any, calls: int = 2000) -> list[float]:
    return [seconds / calls for seconds in timeit.repeat(lambda: call(z), number=calls, repeat=25, timer=time.process_time)]


# ----------------------------------------------------------------------------------------------------------- checkpoints

LOADING = """import resource, sys, time, torch, einformer as ein
def held():
    return int(next(line for line in open("/proc/self/status") if line.startswith("RssAnon")).split()[1]) * 1024
model = ein.from_huggingface(sys.argv[1] + "/config.json")
module = model.build(device="meta").to_empty(device="cpu")
before, start, used = held(), time.perf_counter(), time.process_time()
module.load_huggingface(sys.argv[1])
bytes = sum(weight.numel() * weight.element_size() for weight in module.parameters())
print(bytes, time.process_time() - used, time.perf_counter() - start, (held() - before) / bytes)"""


def write_checkpoint(folder: Path, layers: int, width: int) -> None:
    """A checkpoint of Llama with zeros, which take no place on the disk."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=width, intermediate_size=3 * width, num_hidden_layers=layers, num_attention_heads=16, vocab_size=32000
    )
    with torch.device("meta"):
        shapes = {name: weight.shape for name, weight in LlamaForCausalLM(config).state_dict().items()}
    head, end = dict[str, object](), 0
    for name, shape in shapes.items():
        start, end = end, end + 4 * shape.numel()
        head[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    config.architectures = ["LlamaForCausalLM"]
    config.save_pretrained(folder)


def measure_checkpoint(place: Place) -> Iterator[Row]:
    for layers in (6, 24):
        with tempfile.TemporaryDirectory() as name:
            write_checkpoint(Path(name), layers, 2048)
            command = [sys.executable, "-c", LOADING, name]
            printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        size, used, passed, share = map(float, printed)
        yield {
            "checkpoint": f"{size / GIGABYTE:.2f} GiB",
            "processor time": write_seconds(used),
            "time": write_seconds(passed),
            "memory that it adds, of the weights": f"{share:.2f}",
        }
