// The calculator and the playground: forms whose answers are commands of einformer, run in a worker.
const number = (value) => value.toLocaleString("en");
const pick = (value, units, step) => {
  const scale = Math.max(0, Math.min(units.length - 1, Math.floor(Math.log(value || 1) / Math.log(step))));
  return `${Number((value / step ** scale).toPrecision(4))} ${units[scale]}`;
};
const bytes = (value) => pick(value, ["B", "kB", "MB", "GB", "TB", "PB"], 1000);
const flops = (value) => pick(value, ["", "k", "M", "G", "T", "P", "E"], 1000) + "FLOPs";
const seconds = (value) => (value < 1e-3 ? `${(value * 1e6).toPrecision(3)} µs` : value < 1 ? `${(value * 1e3).toPrecision(3)} ms` : `${value.toPrecision(3)} s`);

// ---------------------------------------------------------------------------------------------------------- commands

const waiting = new Map();
let worker;

function ask(question) {
  const first = worker ? {} : { files: ENGINE.files };
  if (!worker) {
    worker = new Worker("data:text/javascript;charset=utf-8," + encodeURIComponent(ENGINE.worker), { type: "module" });
    worker.onmessage = ({ data: { id, answer, error } }) => {
      const [answered, failed] = waiting.get(id);
      waiting.delete(id);
      error === undefined ? answered(answer) : failed(new Error(error));
    };
  }
  const id = waiting.size ? Math.max(...waiting.keys()) + 1 : 0;
  return new Promise((...ends) => {
    waiting.set(id, ends);
    worker.postMessage({ id, ...first, ...question });
  });
}

const run = (args, written) => ask({ args, written });

// Calls `answer` for the last of several changes, one at a time. Meanwhile the old answer is pale.
function follow(form, answer) {
  let again = false;
  return async function change() {
    again = true;
    if (form.hasAttribute("aria-busy")) return;
    form.setAttribute("aria-busy", "true");
    while (again) {
      again = false;
      await new Promise((done) => setTimeout(done, 120));
      if (!again) await answer(() => again).catch((error) => form.querySelector(".answer").replaceChildren(String(error)));
    }
    form.removeAttribute("aria-busy");
  };
}

// ----------------------------------------------------------------------------------------------------------- pictures

function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function table(title, rows) {
  const cells = (row) => row.map((text, place) => element(place ? "td" : "th", place ? {} : { scope: "row" }, text));
  return element("table", {}, element("caption", {}, title), element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells(row)))));
}

// The shares of a whole: a bar for each.
function bars(title, rows, write) {
  const whole = rows.reduce((sum, [, value]) => sum + value, 0);
  const shown = rows.filter(([, value]) => value).sort((one, other) => other[1] - one[1]);
  const line = ([name, value]) => [name, element("span", { class: "bar", style: `--share: ${(100 * value) / whole}%` }), write(value)];
  return table(title, shown.map(line));
}

// Lines over S, both axes logarithmic.
function plot(title, lines, write) {
  const points = lines.flatMap(([, line]) => line).filter(([, y]) => y > 0);
  if (points.length < 2) return "";
  const range = (values) => [Math.log2(Math.min(...values)), Math.log2(Math.max(...values))];
  const [left, right] = range(points.map(([x]) => x)), [low, high] = range(points.map(([, y]) => y));
  const place = ([x, y]) => [
    80 + (250 * (Math.log2(x) - left)) / (right - left || 1),
    140 - (120 * (Math.log2(y) - low)) / (high - low || 1),
  ];
  const label = (x, y, text, anchor, colour = "") => `<text x="${x}" y="${y}" text-anchor="${anchor}" class="${colour}">${text}</text>`;
  const drawn = lines.map(([name, line], index) => {
    const path = line.filter(([, y]) => y > 0).map((point) => place(point).map((at) => at.toFixed(1)).join(","));
    const key = label(86 + 110 * index, 14, name, "start", `colour${index}`);
    return `<polyline class="colour${index}" points="${path.join(" ")}"/>${key}`;
  });
  const ends = [
    label(76, 144, write(2 ** low), "end"), label(76, 24, write(2 ** high), "end"),
    label(80, 158, `S = ${number(2 ** left)}`, "start"), label(330, 158, number(2 ** right), "end"),
  ];
  const svg = `<svg viewBox="0 0 340 165" role="img" aria-label="${title}"><path class="frame" d="M80,20V140H330"/>${drawn.join("")}${ends.join("")}</svg>`;
  const figure = element("figure", {}, element("figcaption", {}, title));
  figure.insertAdjacentHTML("beforeend", svg);
  return figure;
}

// --------------------------------------------------------------------------------------------------------- calculator

const flags = (form, ...names) => names.flatMap((name) => [`--${name}`, form.elements[name].value]);
const finding = ({ code, message, facts, rule, fix }) => [`${code} ${message}`, ...facts, `rule: ${rule}`, ...(fix ? [`write: ${fix}`] : [])].join("\n  ");
const explain = ({ out, err }) => (out ? JSON.parse(out).findings.map(finding).join("\n") : err.trim().split("\n").pop());

async function calculate(form, target) {
  const common = [target, "--json", ...flags(form, "batch", "precision", "device")];
  const counted = ["count", ...common, ...flags(form, "recompute")];
  let count = await run([...counted, ...flags(form, "seq")]);
  if (count.code === 2) count = await run(counted);  // its length is not open
  const generation = await run(["count", ...common, "--generation", "--context", form.elements.seq.value, ...flags(form, "cache")]);
  return { count, generation, plans: await plan(form, target) };
}

// The plans of a mesh, if there is one.
async function plan(form, target) {
  const { mesh, shard } = form.elements;
  if (!mesh.value.trim()) return null;
  const split = ["--mesh", mesh.value, ...(shard.value.trim() ? ["--shard", shard.value] : [])];
  const planned = ["plan", target, "--json", ...split, ...flags(form, "batch", "precision", "recompute", "device")];
  const plans = await run([...planned, ...flags(form, "seq")]);
  return plans.code === 2 ? run(planned) : plans;  // its length is not open
}

function tabulatePlans({ code, out, err }) {
  if (code) return [element("pre", { class: "finding" }, explain({ out, err }))];
  const { plans, device, inputs } = JSON.parse(out);
  const state = { 0: "", 1: "; zero-1", 3: "; fsdp" };
  const rows = plans.slice(0, 8).map(({ shard, zero, fits, memory, bound, seconds_at_least: least }) =>
    [shard + state[zero], `${bytes(memory.total)}${fits ? "" : ", does not fit"}`, `${seconds(Math.max(...Object.values(least)))}, ${bound}`]);
  return [table(`A training step of ${number(inputs.B ?? 1)} sequences on a mesh of ${device}: what each device holds, and how long it takes at least`, rows)];
}

function tabulate(count, kept) {
  const { parameter_counts: counts, memory, flops_by_phase: spent, seconds_at_least: times } = count;
  const rows = [
    ["parameters", "", number(counts.total)],
    ["of these embeddings", "", number(counts.embedding)],
    ["active for a token", "", number(counts.active)],
    ["a forward pass", flops(spent.forward), number(spent.forward)],
    ["a training step", flops(spent.training), number(spent.training)],
    ["memory of a training step", bytes(memory.total), number(memory.total)],
  ];
  if (kept) {
    rows.push(["cache that is needed", bytes(kept.cache), number(kept.cache)]);
    for (const [engine, { bytes: allocated }] of Object.entries(kept.engines))
      rows.push([`cache that ${engine} allocates`, ...(allocated ? [bytes(allocated), number(allocated)] : ["not stated", ""])]);
  }
  for (const [work, time] of Object.entries(times ?? {})) rows.push([`${work}, at least`, seconds(time), ""]);
  const { total, ...components } = memory;
  return [
    table(count.title, rows),
    bars("Memory of a training step", Object.entries(components), bytes),
    bars("FLOPs of a forward pass", count.parts.map(({ path, layer, flops }) => [path || layer, flops]), flops),
    bars("Parameters", count.parts.map(({ path, layer, parameters }) => [path || layer, parameters]), number),
  ];
}

async function draw(form, target, stale) {
  const points = [];
  for (let length = 128; length <= 131072 && !stale(); length *= 2) {
    const { code, out } = await run(["count", target, "--json", "--seq", length, ...flags(form, "batch", "precision", "recompute")].map(String));
    if (code) break;
    points.push([length, JSON.parse(out)]);
  }
  const line = (name, value) => [name, points.map(([length, count]) => [length, value(count) ?? 0])];
  return [
    plot("Bytes over positions", [line("training", (count) => count.memory.total), line("cache", (count) => count.cache?.total)], bytes),
    plot("FLOPs over positions", [line("forward", (count) => count.flops)], flops),
  ];
}

// What each device holds under the first plan. A pipeline has no such picture.
async function place(form, target, shard) {
  const { code, picture } = await run(["draw", target, "--mesh", form.elements.mesh.value, "--shard", shard, "--width", "700", "--out", "picture.svg"]);
  const figure = element("figure", { class: "picture" }, element("figcaption", {}, code ? "" : `What each device holds: ${shard}`));
  if (!code) figure.insertAdjacentHTML("beforeend", picture);
  return figure;
}

async function startCalculator(form) {
  const [status, fields, refused, answer] = form.children, { config, model } = form.elements;
  const change = follow(form, async (stale) => {
    const target = config.files.length ? "config.json" : model.value;
    const { count, generation, plans } = await calculate(form, target);
    refused.hidden = !count.code;
    form.dataset.answer = JSON.stringify({ count, generation, plans });
    if (count.code) {
      refused.textContent = explain(count);
      answer.replaceChildren();
      return;
    }
    answer.replaceChildren(...tabulate(JSON.parse(count.out), generation.code ? null : JSON.parse(generation.out)));
    if (plans) answer.append(...tabulatePlans(plans));
    const pictures = await draw(form, target, stale);
    if (!stale()) answer.append(...pictures);
    if (plans && !plans.code && !stale()) answer.append(await place(form, target, JSON.parse(plans.out).plans[0].shard));
  });
  const read = async () => {
    if (config.files.length) await ask({ written: { "config.json": await config.files[0].text() } });
    change();
  };
  for (const range of form.querySelectorAll("[type=range]")) {
    const field = range.nextElementSibling;
    const show = () => (range.value = Math.log2(field.value));
    range.addEventListener("input", () => { field.value = 2 ** range.value; });
    field.addEventListener("input", show);
    show();
  }
  form.addEventListener("dragover", (event) => event.preventDefault());
  form.addEventListener("drop", (event) => {
    event.preventDefault();
    config.files = event.dataTransfer.files;
    read();
  });
  config.addEventListener("input", read);
  form.addEventListener("input", change);
  const choices = await ask({});
  for (const [name, values] of Object.entries(choices)) {
    const field = form.elements[name];
    field.append(...values.map((value) => element("option", {}, value)));
    field.value = field.dataset.start ?? values[0];
  }
  model.addEventListener("input", () => { config.value = ""; });
  status.hidden = true;
  fields.disabled = false;
  change();
}

// --------------------------------------------------------------------------------------------------------- playground

const COMMANDS = {
  Picture: ["draw", "text.ein", "--out", "picture.svg", "--width", "860"],
  Program: ["program", "text.ein"],
  Counts: ["count", "text.ein"],
  Formulas: ["count", "text.ein", "--formulas"],
  PyTorch: ["source", "text.ein"],
  LaTeX: ["latex", "text.ein"],
};

async function startPlayground(form) {
  const [status, fields, finding, tabs, answer] = form.children, { text, set } = form.elements;
  for (const name of Object.keys(COMMANDS))
    tabs.append(element("label", {}, element("input", { type: "radio", name: "show", value: name }), name));
  tabs.querySelector("input").checked = true;
  const change = follow(form, async () => {
    const checked = await run(["check", "text.ein"], { "text.ein": text.value });
    finding.textContent = (checked.out + checked.err).trim();
    const shown = form.elements.show.value;
    const sizes = ["LaTeX", "Formulas"].includes(shown) || !set.value.trim() ? [] : ["--set", set.value];
    const { code, out, err, picture } = checked.code ? checked : await run([...COMMANDS[shown], ...sizes]);
    form.dataset.answer = JSON.stringify({ checked, code, out, err });
    if (checked.code) return;  // the last answer stays while a line is typed
    answer.classList.toggle("picture", Boolean(picture));
    if (picture && !code) answer.innerHTML = picture;
    else answer.replaceChildren(element("pre", {}, (out + err).trim()));
  });
  form.addEventListener("input", change);
  form.addEventListener("submit", (event) => event.preventDefault());
  await ask({});
  status.hidden = true;
  fields.disabled = false;
  change();
}

function begin(id, start) {
  const form = document.getElementById(id);
  form && start(form).catch((error) => { form.firstElementChild.textContent = `Python did not start here: ${error.message}`; });
}

begin("calculator-form", startCalculator);
begin("playground-form", startPlayground);
