// The axes of a sweep, as sliders: each sets what the cells of the sweep vary.

import { identity, scaled } from "./matrix.js";
import { element, slider } from "./sliders.js";

const everyHead = (name, make) => (law, value) => ({ heads: law.heads.map((head) => ({ ...head, [name]: make(head, value) })) });

const withEntry = (name, [i, j]) => everyHead(name, (head, value) =>
  head[name].map((row, k) => row.map((x, l) => (k === i && l === j ? value : x))));

const whole = (name) => everyHead(name, (head, value) => scaled(identity(head.V.length), value));

/** The start with the covariance `c I`, or the tokens at the spread that would have it. */
function spread(law, value, initial) {
  const { start, axes } = initial;
  if (start.mean) return { start: { ...start, factor: scaled(identity(start.mean.length), Math.sqrt(value)) } };
  const first = axes.find(({ key }) => key === "cov").values[0];
  const mean = start.x[0].map((_, k) => start.x.reduce((sum, row) => sum + row[k], 0) / start.x.length);
  const times = Math.sqrt(value / first);
  return { start: { ...start, x: start.x.map((row) => row.map((x, k) => mean[k] + times * (x - mean[k]))) } };
}

const PLAIN = ["epsilon", "noise", "t", "attention"];

/** How an axis changes a law: a function of the law, a value and the law of the page. */
function setter({ key, entry }) {
  if (PLAIN.includes(key)) return (_, value) => ({ [key]: value });
  if (key === "cov") return spread;
  const name = key === "A" ? "Q" : "V";
  return entry ? withEntry(name, entry) : whole(name);
}

/** Fills a form with a slider for each axis; `change(law, isStart)` is called with each new law. */
export function fillAxes(form, initial, current, change) {
  form.hidden = !initial.axes.length;
  const heading = form.querySelector("h2");
  form.replaceChildren(heading, ...initial.axes.map((axis) => {
    const set = setter(axis);
    const changed = (value) => change({ ...current(), ...set(current(), value, initial) }, axis.key === "cov");
    if (axis.scale === "list") return listed(axis, changed);
    const ends = [axis.values[0], axis.values[axis.values.length - 1]];
    return slider(axis.name, {
      value: axis.values[0], low: Math.min(...ends), high: Math.max(...ends), scale: axis.scale, change: changed,
    });
  }));
}

function listed({ name, values }, changed) {
  const options = values.map((value, i) => element("option", { value: i }, String(value)));
  const select = element("select", {}, ...options);
  select.addEventListener("change", () => changed(values[Number(select.value)]));
  return element("p", { className: "row" }, element("label", {}, `${name} `, select));
}
