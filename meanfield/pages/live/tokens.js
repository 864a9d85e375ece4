// Weighted tokens under attention: sums over all pairs, exponentials in the log domain.

import { forms } from "./law.js";
import { sinkhornHead } from "./sinkhorn.js";
import { addImage, images, meanOf } from "./sums.js";

/** Softmax and L2 attention. Keys are measured from their mean, which changes rounding alone. */
function tiltedHead({ A, B, V }, { n, d, weights, causal }) {
  const [queries, keys, curved] = [0, 0, 0].map(() => new Float64Array(n * d));
  const [ofKey, row, mean] = [new Float64Array(n), new Float64Array(n), new Float64Array(d)];
  const none = new Float64Array(d);
  const difference = B && A.map((line, k) => line.map((a, l) => a - B[k][l]));
  return (x, out) => {
    const centre = meanOf(x, weights, d);
    images(A, x, B ? centre : none, queries);
    const pull = B ? difference.map((line) => line.reduce((sum, a, l) => sum + a * centre[l], 0)) : none;
    for (let at = 0; at < n * d; at++) {
      keys[at] = x[at] - centre[at % d];
      queries[at] += pull[at % d];
    }
    if (B) images(B, keys, none, curved);
    for (let j = 0; j < n; j++) {
      ofKey[j] = Math.log(weights[j]);
      if (B) for (let k = 0; k < d; k++) ofKey[j] -= (keys[j * d + k] * curved[j * d + k]) / 2;
    }
    for (let i = 0; i < n; i++) {
      const seen = causal ? i + 1 : n;
      if (!softmaxMean(queries, keys, ofKey, row, mean, i, seen)) continue;
      for (let k = 0; k < d; k++) mean[k] += centre[k];
      addImage(V, mean, out, i);
    }
  };
}

/** The mean of the first `seen` keys under the softmax of scores; whether any has weight. */
function softmaxMean(queries, keys, ofKey, row, mean, i, seen) {
  const d = mean.length;
  let top = -Infinity;
  for (let j = 0; j < seen; j++) {
    let score = ofKey[j];
    for (let k = 0; k < d; k++) score += queries[i * d + k] * keys[j * d + k];
    row[j] = score;
    if (score > top) top = score;
  }
  if (top === -Infinity) return false;
  let mass = 0;
  mean.fill(0);
  for (let j = 0; j < seen; j++) {
    const weight = Math.exp(row[j] - top);
    mass += weight;
    for (let k = 0; k < d; k++) mean[k] += weight * keys[j * d + k];
  }
  for (let k = 0; k < d; k++) mean[k] /= mass;
  return true;
}

/** Attention whose weights are a function of each score, the key's own weight beside it.
 *
 * Under a mask the measure is that of the tokens seen, brought to the mass of all. */
const linkedHead = (link) => ({ A, V }, { n, d, weights, causal }) => {
  const [queries, mean, none] = [new Float64Array(n * d), new Float64Array(d), new Float64Array(d)];
  return (x, out) => {
    images(A, x, none, queries);
    let mass = 0;
    for (let i = 0; i < n; i++) {
      mass += weights[i];
      const seen = causal ? i + 1 : n;
      mean.fill(0);
      for (let j = 0; j < seen; j++) {
        let score = 0;
        for (let k = 0; k < d; k++) score += queries[i * d + k] * x[j * d + k];
        const weight = weights[j] * link(score);
        for (let k = 0; k < d; k++) mean[k] += weight * x[j * d + k];
      }
      if (causal && mass === 0) continue;
      if (causal) for (let k = 0; k < d; k++) mean[k] /= mass;
      addImage(V, mean, out, i);
    }
  };
};

const sigmoid = (score) => 1 / (1 + Math.exp(-score));

/** Linear attention: `V S Ax` with the second moment `S`, of the tokens seen so far if causal. */
function linearHead({ A, V }, { n, d, weights, causal }) {
  const [queries, mean, none] = [new Float64Array(n * d), new Float64Array(d), new Float64Array(d)];
  const second = new Float64Array(d * d);
  const add = (x, j) => {
    for (let k = 0; k < d; k++) {
      for (let l = 0; l < d; l++) second[k * d + l] += weights[j] * x[j * d + k] * x[j * d + l];
    }
  };
  return (x, out) => {
    images(A, x, none, queries);
    second.fill(0);
    let mass = 0;
    if (!causal) for (let j = 0; j < n; j++) add(x, j);
    for (let i = 0; i < n; i++) {
      mass += weights[i];
      if (causal) add(x, i);
      if (causal && mass === 0) continue;
      for (let k = 0; k < d; k++) {
        mean[k] = 0;
        for (let l = 0; l < d; l++) mean[k] += second[k * d + l] * queries[i * d + l];
        if (causal) mean[k] /= mass;
      }
      addImage(V, mean, out, i);
    }
  };
}

const HEADS = {
  softmax: tiltedHead, l2: tiltedHead, sigmoid: linkedHead(sigmoid), linear: linearHead, sinkhorn: sinkhornHead,
};

/** The velocities of all tokens, one after the other in one array.
 *
 * The function gives back false where an iteration behind them missed its tolerance. */
export function tokenVelocity(law, weights, d) {
  const cloud = { n: weights.length, d, weights, causal: law.causal, iterations: law.iterations };
  const heads = forms(law).map((form) => HEADS[law.attention](form, cloud));
  return (x, out) => {
    out.fill(0);
    return heads.map((head) => head(x, out) !== false).every(Boolean);
  };
}
