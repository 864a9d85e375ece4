// Weighted tokens under attention: sums over all pairs, exponentials in the log domain.

import { exponentials } from "./exponential.js";
import { forms } from "./law.js";
import { applied, plus, scaled, zeros } from "./matrix.js";
import { sinkhornHead } from "./sinkhorn.js";
import { addImage, columns, images, meanOf, scoresOf, split } from "./sums.js";

/** Softmax and L2 attention. Keys are measured from their mean, which affects only rounding errors. */
function tiltedHead({ A, B, V }, { n, d, weights, causal }) {
  const [keys, queries] = [columns(n, d), columns(n, d)];
  const [ofKey, row, mean] = [new Float64Array(n), new Float64Array(n), new Float64Array(d)];
  const difference = B && plus(A, scaled(B, -1));
  const logs = weights.map(Math.log);
  return (x, out) => {
    const centre = meanOf(x, weights, d);
    split(x, centre, keys);
    // With y = z + c: y·Ax - ½ y·By = z·(A(x - c) + (A - B)c) - ½ z·Bz, but for what z does not enter.
    images(A, keys, B ? applied(difference, centre) : applied(A, centre), queries);
    ofKey.set(logs);
    if (B) addSquares(B, keys, ofKey);
    for (let i = 0; i < n; i++) {
      const seen = causal ? i + 1 : n;
      if (!softmaxMean(queries, keys, ofKey, row, mean, i, seen)) continue;
      for (let k = 0; k < d; k++) mean[k] += centre[k];
      addImage(V, mean, out, i);
    }
  };
}

/** Adds `-½ z·Bz` to the score of each key. */
function addSquares(B, keys, ofKey) {
  for (let j = 0; j < ofKey.length; j++) {
    for (let k = 0; k < keys.length; k++) {
      for (let l = 0; l < keys.length; l++) ofKey[j] -= (keys[k][j] * B[k][l] * keys[l][j]) / 2;
    }
  }
}

/** The mean of the first `seen` keys under the softmax of scores; returns whether any key has weight. */
function softmaxMean(queries, keys, ofKey, row, mean, i, seen) {
  scoresOf(queries, keys, ofKey, row, i, seen);
  let top = -Infinity;
  for (let j = 0; j < seen; j++) if (row[j] > top) top = row[j];
  if (top === -Infinity) return false;
  const mass = exponentials(row, seen, top);
  for (let k = 0; k < mean.length; k++) {
    const key = keys[k];
    let sum = 0;
    for (let j = 0; j < seen; j++) sum += row[j] * key[j];
    mean[k] = sum / mass;
  }
  return true;
}

/** Attention whose weights are a function of each score, times the weight of the key.
 *
 * Under a mask, the weights of the tokens seen so far are divided by their sum. */
const linkedHead = (link) => ({ A, V }, { n, d, weights, causal }) => {
  const [keys, queries] = [columns(n, d), columns(n, d)];
  const [row, mean, zero] = [new Float64Array(n), new Float64Array(d), new Float64Array(d)];
  const none = new Float64Array(n);
  return (x, out) => {
    split(x, zero, keys);
    images(A, keys, zero, queries);
    let mass = 0;
    for (let i = 0; i < n; i++) {
      mass += weights[i];
      const seen = causal ? i + 1 : n;
      if (causal && mass === 0) continue;
      scoresOf(queries, keys, none, row, i, seen);
      for (let j = 0; j < seen; j++) row[j] = weights[j] * link(row[j]);
      for (let k = 0; k < d; k++) {
        const key = keys[k];
        let sum = 0;
        for (let j = 0; j < seen; j++) sum += row[j] * key[j];
        mean[k] = causal ? sum / mass : sum;
      }
      addImage(V, mean, out, i);
    }
  };
};

const sigmoid = (score) => 1 / (1 + Math.exp(-score));

/** Linear attention: `V S Ax` with the second moment `S`, of the tokens seen so far if causal. */
function linearHead({ A, V }, { n, d, weights, causal }) {
  const [keys, queries] = [columns(n, d), columns(n, d)];
  const [second, mean, zero] = [zeros(d, d), new Float64Array(d), new Float64Array(d)];
  const add = (j) => {
    for (let k = 0; k < d; k++) for (let l = 0; l < d; l++) second[k][l] += weights[j] * keys[k][j] * keys[l][j];
  };
  return (x, out) => {
    split(x, zero, keys);
    images(A, keys, zero, queries);
    for (const row of second) row.fill(0);
    let mass = 0;
    if (!causal) for (let j = 0; j < n; j++) add(j);
    for (let i = 0; i < n; i++) {
      mass += weights[i];
      if (causal) add(i);
      if (causal && mass === 0) continue;
      for (let k = 0; k < d; k++) {
        const sum = second[k].reduce((total, s, l) => total + s * queries[l][i], 0);
        mean[k] = causal ? sum / mass : sum;
      }
      addImage(V, mean, out, i);
    }
  };
}

const HEADS = {
  softmax: tiltedHead, l2: tiltedHead, exp: linkedHead(Math.exp), sigmoid: linkedHead(sigmoid), linear: linearHead, sinkhorn: sinkhornHead,
};

/** The velocities of all tokens, one after the other in one array.
 *
 * The function returns false if an iteration did not reach its tolerance. */
export function tokenVelocity(law, weights, d) {
  const cloud = { n: weights.length, d, weights, causal: law.causal, iterations: law.iterations };
  const heads = forms(law).map((form) => HEADS[law.attention](form, cloud));
  return (x, out) => {
    out.fill(0);
    return heads.map((head) => head(x, out) !== false).every(Boolean);
  };
}
