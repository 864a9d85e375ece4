// The axes of a sweep as sliders: each sets a quantity that the sweep varies.

import { identity, scaled, withEntry } from "./matrix.js";
import { element, slider } from "./sliders.js";

const everyHead = (name, make) => (law, value) => ({ heads: law.heads.map((head) => ({ ...head, [name]: make(head, value) })) });

const entryOf = (name, [i, j]) => everyHead(name, (head, value) => withEntry(head[name], i, j, value));

const whole = (name) => everyHead(name, (head, value) => scaled(identity(head.V.length), value));

/** The Gaussian with the same mean and the covariance `c I`. */
const spread = ({ start }, c) => ({ start: { ...start, factor: scaled(identity(start.mean.length), Math.sqrt(c)) } });

/** The mean variance of a Gaussian: `c` if its covariance is `c I`. */
const spreadOf = ({ start }) => start.factor.flat().reduce((sum, x) => sum + x * x, 0) / start.mean.length;

const PLAIN = ["epsilon", "noise", "t", "attention"];

/** The effect of an axis on a law: a function of the law and a value. */
export function setter({ key, entry }) {
  if (PLAIN.includes(key)) return (_, value) => ({ [key]: value });
  if (key === "cov") return spread;
  const name = key === "A" ? "Q" : "V";
  return entry ? entryOf(name, entry) : whole(name);
}

/** The value of an axis in a law. */
export function valueOf({ key, entry }, law) {
  if (PLAIN.includes(key)) return law[key];
  if (key === "cov") return spreadOf(law);
  const [i, j] = entry ?? [0, 0];
  return law.heads[0][key === "A" ? "Q" : "V"][i][j];
}

/** Fills a form with a slider for each axis; `change(law, isStart)` is called with each new law. */
export function fillAxes(form, initial, current, change) {
  form.hidden = !initial.axes.length;
  const heading = form.querySelector("h2");
  form.replaceChildren(heading, ...initial.axes.map((axis) => {
    const set = setter(axis);
    const changed = (value) => change({ ...current(), ...set(current(), value) }, axis.key === "cov");
    const value = valueOf(axis, current());
    if (axis.scale === "list") return listed(axis, value, changed);
    const ends = [axis.values[0], axis.values[axis.values.length - 1]];
    return slider(axis.name, {
      value, low: Math.min(...ends), high: Math.max(...ends), scale: axis.scale, change: changed,
    });
  }));
}

function listed({ name, values }, now, changed) {
  const options = values.map((value, i) => element("option", { value: i }, String(value)));
  const select = element("select", {}, ...options);
  select.selectedIndex = values.indexOf(now); // nothing if the law has another value
  select.addEventListener("change", () => changed(values[Number(select.value)]));
  return element("p", { className: "row" }, element("label", {}, `${name} `, select));
}
