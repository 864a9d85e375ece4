// Sliders for the numbers of a law, each with a field for the exact number.

import { NAMES, known } from "./law.js";
import { identity, multiple, scaled, withEntry } from "./matrix.js";
import { exact } from "./numerals.js";

const ENTRIES = 3; // largest dimension in which each entry of a matrix has a slider
const MOST_HEADS = 4;

export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in node && name !== "list") node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

let count = 0;

/** A slider with its field, which shows the number in use. Scales: `linear`, `log`, and `root`, fine near zero.
 *
 * Numbers that do not fit are not used. */
export function slider(label, { value, low, high, scale = "linear", fits = () => true, change }) {
  const id = `slider-${count++}`;
  const [there, back] = {
    linear: [(x) => x, (x) => x], log: [Math.log, Math.exp], root: [Math.sqrt, (x) => x * x],
  }[scale];
  const [from, to] = [Math.min(low, value), Math.max(high, value)];
  const range = element("input", { type: "range", min: there(from), max: there(to), step: "any", value: there(value), id });
  const field = element("input", { type: "number", step: "any", ariaLabel: `${label}, exact` });
  let used = value;
  const show = () => {
    field.value = exact(used);
    field.style.minWidth = `calc(${field.value.length}ch + 2.2rem)`; // the rest is for the border and the arrows
  };
  const use = (number) => {
    const isUsed = Number.isFinite(there(number)) && fits(number);
    if (isUsed) used = number;
    show();
    if (isUsed) change(number);
  };
  show();
  range.addEventListener("input", () => use(rounded(back(Number(range.value)))));
  field.addEventListener("change", () => {
    use(field.valueAsNumber);
    range.value = there(used);
  });
  return element("div", { className: "slider" }, element("label", { htmlFor: id }, label), range, field);
}

const rounded = (value) => Number(value.toPrecision(4));

/** Fills a form with the sliders of the law that is `current()`; each calls `change` with a new law.
 *
 * Numbers that an axis of a sweep sets have their sliders among the axes, and none here. */
export function fill(form, current, change) {
  const law = current();
  const renewed = (part) => change({ ...current(), ...part });
  const beta = { value: Number((1 / law.epsilon).toPrecision(15)), low: 0.1, high: 100, scale: "log", change: (beta) => renewed({ epsilon: 1 / beta }) };
  const numbers = {
    epsilon: law.radius ? ["β", beta] : ["ε", { value: law.epsilon, low: 0.1, high: 10, scale: "log", change: (epsilon) => renewed({ epsilon }) }],
    noise: ["noise", { value: law.noise, low: 0, high: 1, scale: "root", change: (noise) => renewed({ noise }) }],
    t: ["until t", until(law, (t) => renewed({ t }))],
  };
  form.replaceChildren(
    ...choice(law, renewed),
    ...law.heads.flatMap((_, h) => headSliders(current, h, renewed)),
    headCount(law, renewed),
    ...Object.keys(numbers).filter((key) => !isSwept(law, key) && !(key === "noise" && law.radius)).map((key) => slider(...numbers[key])),
  );
}

/** Whether an axis of the sweep sets this number of a law. */
const isSwept = ({ axes }, key) => axes.some((axis) => axis.key === key);

/** Whether an axis of the sweep sets an entry of the matrix of the only head, and no other. */
export function isSweptAlone({ axes, heads }, key, place) {
  const only = heads[0].V.length === 1 ? [0, 0] : null;
  return heads.length === 1 && axes.some((axis) => axis.key === key && String(axis.entry ?? only) === String(place));
}

/** The last time, which comes after the first. */
function until({ t, t0 }, change) {
  const span = t - t0;
  return { value: t, low: t0 + span / 10, high: t0 + 10 * span, scale: "log", fits: (time) => time > t0, change };
}

/** Lists for attention and mask. A page has no masked Sinkhorn attention, and closed forms only for Gaussians. */
function choice(law, renewed) {
  const isGaussian = law.measure === "gaussian";
  const options = known(law).map((name) => element("option", { value: name, selected: name === law.attention }, NAMES[name]));
  const select = element("select", { id: "attention" }, ...options);
  select.addEventListener("change", () => renewed({ attention: select.value, iterations: null }));
  const parts = [element("label", {}, "Attention ", select)];
  if (!isGaussian) {
    const box = element("input", { type: "checkbox", id: "causal", checked: law.causal, disabled: law.attention === "sinkhorn" });
    box.addEventListener("change", () => renewed({ causal: box.checked }));
    parts.push(element("label", {}, box, " causal"));
  }
  return [element("p", { className: "row" }, ...parts)];
}

function headSliders(current, h, renewed) {
  const { heads } = current();
  const set = (name, change) => renewed({
    heads: current().heads.map((head, k) => (k === h ? { ...head, [name]: change(head[name]) } : head)),
  });
  const title = heads.length > 1 ? [element("legend", {}, `Head ${h}`)] : [];
  const bare = JSON.stringify(heads[h].K) === JSON.stringify(identity(heads[h].K.length));
  const entriesOf = current().radius ? multiples : entries;
  const free = (key) => (place) => !isSweptAlone(current(), key, place);
  const sliders = [
    ...entriesOf(bare ? "A" : "Q", heads[h].Q, free("A"), (change) => set("Q", change)),
    ...entriesOf("V", heads[h].V, free("V"), (change) => set("V", change)),
  ];
  return sliders.length ? [element("fieldset", {}, ...title, ...sliders)] : [];
}

/** A slider for each entry of a small matrix that is free; one for the size of a large one.
 *
 * `set` is called with a function from the current matrix to the new one. */
function entries(name, M, isFree, set) {
  const reach = Math.max(2, ...M.flat().map((x) => 2 * Math.abs(x)));
  if (M.length > ENTRIES || M[0].length > ENTRIES) {
    return [slider(`${name} ×`, { value: 1, low: -2, high: 2, change: (c) => set(() => scaled(M, c)) })];
  }
  const small = M.length === 1 && M[0].length === 1;
  const places = M.flatMap((row, i) => row.map((_, j) => [i, j])).filter(isFree);
  return places.map(([i, j]) => slider(small ? name : `${name}${digit(i)}${digit(j)}`, {
    value: M[i][j], low: -reach, high: reach, change: (x) => set((old) => withEntry(old, i, j, x)),
  }));
}

/** A slider for a multiple of the identity, as most sources have on spheres; `entries` for other matrices. */
function multiples(name, M, isFree, set) {
  const value = multiple(M);
  if (value === null) return entries(name, M, isFree, set);
  return [slider(name, { value, low: -2, high: 2, change: (c) => set(() => scaled(identity(M.length), c)) })];
}

const digit = (i) => "₁₂₃"[i];

function headCount(law, renewed) {
  const d = law.heads[0].V.length;
  const last = law.heads[law.heads.length - 1];
  const fresh = { Q: last.K, K: last.K, V: scaled(identity(d), 0) };
  const more = element("button", { type: "button", disabled: law.heads.length >= MOST_HEADS }, "Add a head");
  const less = element("button", { type: "button", disabled: law.heads.length < 2 }, "Remove a head");
  more.addEventListener("click", () => renewed({ heads: [...law.heads, fresh] }));
  less.addEventListener("click", () => renewed({ heads: law.heads.slice(0, -1) }));
  return element("p", { className: "row" }, more, less);
}
