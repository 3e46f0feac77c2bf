"""Measures tables of benchmarks: some by name, `all` into docs/benchmarks.md, or on a GPU with `gpu`."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from tests.benchmarks.tables import TABLES, Table, render_rows, render_section
from tests.benchmarks.timing import CPU, CUDA, Place, Row, describe_error

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
COMMAND = "python -m tests.benchmarks all"
PATIENCE = 6.0
INTRODUCTION = f"""# Benchmarks

The command below measures every table and writes this page. Other load on the machine meets all candidates of a row alike.

```sh
{COMMAND}
```
"""


def read_processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def describe_run() -> str:
    """The date, the versions, the machine, and what else it did."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers"))
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    date = datetime.datetime.now(datetime.UTC).date()
    machine = f"{read_processor()}, {cores} cores, load average before the run {load:.1f}"
    return f"{date}, Python {platform.python_version()}, {versions}, {machine}.\n"


def measure_apart(name: str, patience: float, cuda: bool = False) -> str:
    """The rows of a table, measured in a process of its own, and the first line of the error that ended it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        command = [sys.executable, "-m", "tests.benchmarks", name, "--rows", str(path), *["--cuda"] * cuda]
        rows, error = list[Row](), ""
        try:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=patience * TABLES[name].seconds)
        except subprocess.TimeoutExpired:
            error = f"failed: it took more than {patience * TABLES[name].seconds:.0f} s"
        except subprocess.CalledProcessError as failure:
            error = f"failed: its process ended with {failure.returncode}"
        if path.exists():
            rows, told = json.loads(path.read_text(encoding="utf-8"))
            error = told or error
    return "\n\n".join(filter(None, [render_rows(rows) if rows else "", error]))


def write_rows(table: Table, place: Place, path: Path) -> None:
    """For the process that waits: the rows so far, and the error."""
    rows, error = list[Row](), ""
    try:
        for row in table.measure(place):
            rows.append(row)
            path.write_text(json.dumps((rows, "")), encoding="utf-8")
    except Exception as failure:
        error = describe_error(failure)
    path.write_text(json.dumps((rows, error)), encoding="utf-8")


def measure_sections(names: Iterable[str], patience: float, cuda: bool = False) -> list[str]:
    sections = []
    for name in names:
        start = time.perf_counter()
        sections.append(render_section(TABLES[name], measure_apart(name, patience, cuda)))
        print(sections[-1], flush=True)
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return sections


def run_on_cuda(patience: float) -> None:
    import torch

    if not torch.cuda.is_available():
        print("No GPU is here: torch finds no CUDA device.")
        return
    print(f"{torch.cuda.get_device_name()}, bfloat16. {describe_run()}")
    measure_sections((name for name, table in TABLES.items() if table.on_cuda), patience, cuda=True)


def read_arguments() -> argparse.Namespace:
    lines = (f"  {name:15} {table.seconds:4} s  {table.title}" for name, table in TABLES.items())
    total = f"  all{sum(table.seconds for table in TABLES.values()):17} s  every table, into docs/benchmarks.md"
    more = [total, "  gpu                    the tables of models, on CUDA in bfloat16"]
    parser = argparse.ArgumentParser(
        "python -m tests.benchmarks",
        description="Measure tables of benchmarks.",
        epilog="\n".join(["tables, and seconds on two quiet cores:", *lines, *more]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [*TABLES, "all", "gpu"]
    parser.add_argument("tables", nargs="+", metavar="TABLE", choices=names, help="name a table, `all` or `gpu`")
    parser.add_argument("--page", type=Path, default=PAGE, help="set the page that `all` writes. Default: docs/benchmarks.md.")
    patience = f"give a table so many times its seconds. Default: {PATIENCE:.0f}."
    parser.add_argument("--patience", type=float, default=PATIENCE, help=patience)
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)  # where the process of one table writes
    parser.add_argument("--cuda", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = read_arguments()
    if options.rows:
        write_rows(TABLES[options.tables[0]], CUDA if options.cuda else CPU, options.rows)
    elif "gpu" in options.tables:
        run_on_cuda(options.patience)
    elif "all" in options.tables:
        head = f"{INTRODUCTION}\n{describe_run()}"
        options.page.write_text("\n".join([head, *measure_sections(TABLES, options.patience)]), encoding="utf-8")
    else:
        measure_sections(options.tables, options.patience)


if __name__ == "__main__":
    main()
