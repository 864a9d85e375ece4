// Links to a changed page: the part after `#` contains what differs from the page itself.
//
// `#epsilon=0.5&V=-1&A2=1,0.5,0,1` has a matrix of the first head, a number for its multiple of
// the identity, and one of the second, row by row. `rows=3,7&start=…` are the tokens that moved.

import { known } from "./law.js";
import { identity, multiple, scaled } from "./matrix.js";
import { numbersIn, written } from "./numerals.js";

const LARGEST = 1600; // largest number of values of a start in a link, since some programs cut longer links

const NUMBERS = ["epsilon", "noise", "t"];
const MATRICES = ["Q", "K", "V"];
const isSame = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/** The part of an address after `#`; it contains the start if the start was changed and is short. */
export function hashOf(law, initial, isEdited) {
  const entries = [];
  const add = (key, value, before, text) => isSame(value, before) || entries.push(`${key}=${text(value)}`);
  add("attention", law.attention, initial.attention, String);
  for (const key of NUMBERS) add(key, law[key], initial[key], (x) => written([x]));
  add("causal", law.causal, initial.causal, Number);
  add("iterations", law.iterations, initial.iterations, (k) => k ?? 0);
  add("heads", law.heads.length, initial.heads.length, String);
  law.heads.forEach((head, h) => {
    for (const name of MATRICES) add(nameOf(name, h), head[name], pageHead(initial, h)[name], matrixText);
  });
  if (isEdited && holdsStart(law)) entries.push(...startEntries(law.start, initial.start));
  return entries.join("&");
}

export const holdsStart = (law) => stateOf(law.start).length <= LARGEST;

/** The law with the changes in a hash, and whether its start differs.
 *
 * Throws an error if the hash does not belong to this page. */
export function lawFrom(hash, initial) {
  const entries = new URLSearchParams(hash.replace(/^#/, ""));
  const law = structuredClone(initial);
  if (entries.has("attention")) law.attention = entries.get("attention");
  for (const key of NUMBERS) if (entries.has(key)) [law[key]] = numbersIn(entries.get(key));
  if (entries.has("causal")) law.causal = entries.get("causal") === "1";
  if (entries.has("iterations")) law.iterations = Number(entries.get("iterations")) || null;
  law.heads = headsFrom(entries, initial);
  check(law, initial);
  const isMoved = entries.has("start");
  if (isMoved) law.start = startFrom(entries, initial);
  return { law, isEdited: isMoved || initial.origin === null };
}

/** The name of a matrix: its letter, followed by the number of the head from the second head on. */
const nameOf = (name, h) => `${name}${h ? h + 1 : ""}`;

/** The head of the page that a head is compared with: the last one for heads that were added. */
const pageHead = ({ heads }, h) => heads[Math.min(h, heads.length - 1)];

function matrixText(M) {
  const c = multiple(M);
  return written(c === null ? M.flat() : [c]);
}

function headsFrom(entries, initial) {
  const count = entries.has("heads") ? Number(entries.get("heads")) : initial.heads.length;
  if (!(Number.isInteger(count) && count > 0 && count <= 8)) throw new RangeError("a number of heads that does not fit");
  return Array.from({ length: count }, (_, h) => Object.fromEntries(MATRICES.map((name) => {
    const text = entries.get(nameOf(name, h));
    return [name, text === null ? pageHead(initial, h)[name] : matrixFrom(text, initial)];
  })));
}

function matrixFrom(text, initial) {
  const d = initial.heads[0].V.length;
  const numbers = numbersIn(text);
  return numbers.length === 1 ? scaled(identity(d), numbers[0]) : rowsOf(numbers, d);
}

function check(law, initial) {
  const d = initial.heads[0].V.length;
  const isMatrix = (M) => Array.isArray(M) && M.length > 0 && M.every((row) => row.length === d && row.every(Number.isFinite));
  const fits = (head) => isMatrix(head.Q) && isMatrix(head.K) && head.Q.length === head.K.length && isMatrix(head.V) && head.V.length === d;
  const isAttention = known(law).includes(law.attention) && !(law.causal && law.measure === "gaussian");
  const isOdd = law.iterations === null || (law.attention === "sinkhorn" && law.iterations > 0 && law.iterations % 2 === 1);
  const good = isAttention && isOdd && law.heads.every(fits) && law.epsilon > 0
    && law.noise >= 0 && !(law.noise && law.radius) && law.t > initial.t0 && [law.epsilon, law.noise, law.t].every(Number.isFinite);
  if (!good) throw new RangeError("numbers that do not fit");
}

const stateOf = (start) => (start.x ? start.x.flat() : [...start.mean, ...start.factor.flat()]);

/** The numbers of a start; for tokens, only those that were moved, if they are few. */
function startEntries(start, before) {
  const whole = written(stateOf(start));
  if (!start.x) return [`start=${whole}`];
  const rows = start.x.flatMap((row, i) => (isSame(row, before.x[i]) ? [] : [i]));
  const names = `rows=${rows.join(",")}`;
  const part = written(rows.flatMap((i) => start.x[i]));
  return rows.length && names.length + part.length < whole.length ? [names, `start=${part}`] : [`start=${whole}`];
}

const rowsOf = (numbers, width) =>
  Array.from({ length: Math.ceil(numbers.length / width) }, (_, i) => numbers.slice(i * width, (i + 1) * width));

function startFrom(entries, { start }) {
  const numbers = numbersIn(entries.get("start"));
  if (!numbers.every(Number.isFinite)) throw new RangeError("a start that is not finite");
  if (start.x) return tokensFrom(numbers, entries.get("rows"), start);
  const d = start.mean.length;
  if (numbers.length % d || numbers.length < 2 * d) throw new RangeError("another dimension");
  return { mean: numbers.slice(0, d), factor: rowsOf(numbers.slice(d), numbers.length / d - 1) };
}

function tokensFrom(numbers, names, start) {
  const width = start.x[0].length;
  const indices = names === null ? start.x.map((_, i) => i) : numbersIn(names);
  const fits = indices.every((i) => i in start.x) && numbers.length === indices.length * width;
  if (!fits) throw new RangeError("another number of tokens");
  const x = [...start.x];
  rowsOf(numbers, width).forEach((row, k) => (x[indices[k]] = row));
  return { ...start, x };
}
