// Runs commands of einformer in Pyodide. All its files come in one message, and nothing is loaded from elsewhere.
const TYPES = { mjs: "text/javascript", wasm: "application/wasm", json: "application/json" };
const PYTHON = `
import contextlib, io, json
from pathlib import Path
from einformer.cli import main

def run(args):
    picture = Path("picture.svg")
    picture.unlink(missing_ok=True)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(list(args))
        except SystemExit as exit:
            code = exit.code
    shown = picture.read_text(encoding="utf-8") if picture.exists() else ""
    return json.dumps({"code": code, "out": out.getvalue(), "err": err.getvalue(), "picture": shown})

def list_choices():
    from einformer.architectures import models
    from einformer.interpreters.count import conventions
    return json.dumps({
        "model": list(models()),
        "precision": list(conventions.PRECISIONS),
        "device": list(conventions.read_devices()),
        "cache": conventions.list_caches(),
    })
`;
let start;

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

async function load(packed) {
  const names = Object.keys(packed);
  const files = Object.fromEntries(await Promise.all(names.map(async (name) => [name, await unpack(packed[name])])));
  const blob = (name) => new Blob([files[name]], { type: TYPES[name.split(".").pop()] });
  self.fetch = async (url) => new Response(blob(String(url).split("#/").pop()));
  const { loadPyodide } = await import(URL.createObjectURL(blob("pyodide.mjs")));
  // What stands after # says which file is meant. The module itself is imported from the address before it.
  const pyodide = await loadPyodide({ indexURL: URL.createObjectURL(blob("pyodide.asm.mjs")) + "#/" });
  pyodide.unpackArchive(files["einformer.zip"], "zip");
  pyodide.runPython(PYTHON);
  return pyodide;
}

self.onmessage = async ({ data: { id, files, args, written = {} } }) => {
  try {
    start ??= load(files);
    const pyodide = await start;
    for (const [name, text] of Object.entries(written)) pyodide.FS.writeFile(name, text);
    const answer = args ? pyodide.globals.get("run")(args) : pyodide.globals.get("list_choices")();
    self.postMessage({ id, answer: JSON.parse(answer) });
  } catch (error) {
    self.postMessage({ id, error: String(error) });
  }
};
