// The axes of a sweep, as sliders: each sets what the cells of the sweep vary.

import { identity, scaled } from "./matrix.js";
import { element, slider } from "./sliders.js";

const everyHead = (name, make) => (law, value) => ({ heads: law.heads.map((head) => ({ ...head, [name]: make(head, value) })) });

const withEntry = (name, [i, j]) => everyHead(name, (head, value) =>
  head[name].map((row, k) => row.map((x, l) => (k === i && l === j ? value : x))));

const whole = (name) => everyHead(name, (head, value) => scaled(identity(head.V.length), value));

const middle = (x) => x[0].map((_, k) => x.reduce((sum, row) => sum + row[k], 0) / x.length);

/** The start with the covariance `c I`, or the tokens at the spread that would have it. */
function spread(law, value, initial) {
  const { start, axes } = initial;
  if (start.mean) return { start: { ...start, factor: scaled(identity(start.mean.length), Math.sqrt(value)) } };
  const first = axes.find(({ key }) => key === "cov").values[0];
  const [mean, times] = [middle(start.x), Math.sqrt(value / first)];
  return { start: { ...start, x: start.x.map((row) => row.map((x, k) => mean[k] + times * (x - mean[k]))) } };
}

/** The `c` of a start. */
function spreadOf({ start }, initial, first) {
  if (start.mean) return start.factor[0][0] ** 2;
  const about = (x, mean) => x.reduce((sum, row) => sum + row.reduce((rest, c, k) => rest + (c - mean[k]) ** 2, 0), 0);
  const squares = (x) => about(x, middle(x));
  return (first * squares(start.x)) / squares(initial.start.x);
}

const PLAIN = ["epsilon", "noise", "t", "attention"];

/** How an axis changes a law: a function of the law, a value and the law of the page. */
export function setter({ key, entry }) {
  if (PLAIN.includes(key)) return (_, value) => ({ [key]: value });
  if (key === "cov") return spread;
  const name = key === "A" ? "Q" : "V";
  return entry ? withEntry(name, entry) : whole(name);
}

/** The value of an axis that a law has. */
export function valueOf({ key, entry, values }, law, initial) {
  if (PLAIN.includes(key)) return law[key];
  if (key === "cov") return spreadOf(law, initial, values[0]);
  const [i, j] = entry ?? [0, 0];
  return law.heads[0][key === "A" ? "Q" : "V"][i][j];
}

/** Fills a form with a slider for each axis; `change(law, isStart)` is called with each new law. */
export function fillAxes(form, initial, current, change) {
  form.hidden = !initial.axes.length;
  const heading = form.querySelector("h2");
  form.replaceChildren(heading, ...initial.axes.map((axis) => {
    const set = setter(axis);
    const changed = (value) => change({ ...current(), ...set(current(), value, initial) }, axis.key === "cov");
    const value = valueOf(axis, current(), initial);
    if (axis.scale === "list") return listed(axis, value, changed);
    const ends = [axis.values[0], axis.values[axis.values.length - 1]];
    return slider(axis.name, {
      value, low: Math.min(...ends), high: Math.max(...ends), scale: axis.scale, change: changed,
    });
  }));
}

function listed({ name, values }, now, changed) {
  const options = values.map((value, i) => element("option", { value: i, selected: value === now }, String(value)));
  const select = element("select", {}, ...options);
  select.addEventListener("change", () => changed(values[Number(select.value)]));
  return element("p", { className: "row" }, element("label", {}, `${name} `, select));
}
