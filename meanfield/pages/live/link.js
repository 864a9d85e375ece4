// A link that holds what is set: the keys that differ from those of the page, after its `#`.

import { known } from "./law.js";

const LARGEST = 1600; // numbers of a start in a link: longer ones are cut by what passes them on

const KEYS = ["attention", "heads", "epsilon", "noise", "causal", "iterations", "t"];

/** The part of an address behind `#`; the start is in it if it was changed and is short. */
export function hashOf(law, initial, isEdited) {
  const entries = KEYS.map((key) => [key, JSON.stringify(law[key])]).filter(
    ([key, text]) => text !== JSON.stringify(initial[key]),
  );
  const numbers = isEdited ? stateOf(law) : [];
  if (isEdited && numbers.length <= LARGEST) entries.push(["start", encoded(numbers)]);
  return new URLSearchParams(entries).toString();
}

export const holdsStart = (law) => stateOf(law).length <= LARGEST;

/** A law with what a hash changes of it, and whether its start is another.
 *
 * Raises an error where the hash is none of this page. */
export function lawFrom(hash, initial) {
  const found = new URLSearchParams(hash.replace(/^#/, ""));
  const law = structuredClone(initial);
  for (const key of KEYS) if (found.has(key)) law[key] = JSON.parse(found.get(key));
  check(law, initial);
  if (found.has("start")) law.start = startFrom(decoded(found.get("start")), initial);
  return { law, isEdited: found.has("start") || initial.origin === null };
}

function check(law, initial) {
  const d = initial.heads[0].V.length;
  const isMatrix = (M) => Array.isArray(M) && M.length > 0 && M.every((row) => row.length === d && row.every(Number.isFinite));
  const fits = (head) => isMatrix(head.Q) && isMatrix(head.K) && head.Q.length === head.K.length && isMatrix(head.V);
  const isAttention = known(law).includes(law.attention) && !(law.causal && law.measure === "gaussian");
  const isOdd = law.iterations === null || (law.attention === "sinkhorn" && law.iterations > 0 && law.iterations % 2 === 1);
  const good = isAttention && isOdd && law.heads.length > 0 && law.heads.length <= 8 && law.heads.every(fits) && law.epsilon > 0
    && law.noise >= 0 && law.t > initial.t0 && [law.epsilon, law.noise, law.t].every(Number.isFinite);
  if (!good) throw new RangeError("numbers that do not fit");
}

const stateOf = ({ start }) => (start.x ? start.x.flat() : [...start.mean, ...start.factor.flat()]);

function startFrom(numbers, { start }) {
  if (!numbers.every(Number.isFinite)) throw new RangeError("a start that is not finite");
  const rows = (values, width) => Array.from({ length: values.length / width }, (_, i) => values.slice(i * width, (i + 1) * width));
  if (start.x) {
    if (numbers.length !== start.x.length * start.x[0].length) throw new RangeError("another number of tokens");
    return { ...start, x: rows(numbers, start.x[0].length) };
  }
  const d = start.mean.length;
  if (numbers.length % d || numbers.length < 2 * d) throw new RangeError("another dimension");
  return { mean: numbers.slice(0, d), factor: rows(numbers.slice(d), numbers.length / d - 1) };
}

/** Numbers as base64 of their bits. */
function encoded(numbers) {
  const bytes = new Uint8Array(Float64Array.from(numbers).buffer);
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

function decoded(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return Array.from(new Float64Array(bytes.buffer));
}
