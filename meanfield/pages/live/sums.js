// Sums over tokens that all attentions share; states stand one after the other in one array.

/** Adds `V m` to the velocity of token `i`. */
export function addImage(V, mean, out, i) {
  const d = mean.length;
  for (let k = 0; k < d; k++) {
    let sum = 0;
    for (let l = 0; l < d; l++) sum += V[k][l] * mean[l];
    out[i * d + k] += sum;
  }
}

/** The weighted mean of tokens. */
export function meanOf(x, weights, d) {
  const mean = new Float64Array(d);
  for (let i = 0; i < weights.length; i++) for (let k = 0; k < d; k++) mean[k] += weights[i] * x[i * d + k];
  return mean;
}

/** Arrays of the coordinates of `n` vectors: loops over one of them are fast. */
export const columns = (n, d) => Array.from({ length: d }, () => new Float64Array(n));

/** The coordinates of states, minus those of an origin. */
export function split(x, origin, out) {
  const d = out.length;
  for (let k = 0; k < d; k++) {
    const [column, shift] = [out[k], origin[k]];
    for (let i = 0; i < column.length; i++) column[i] = x[i * d + k] - shift;
  }
}

/** `A z_i + b` of vectors given by their coordinates. */
export function images(A, z, b, out) {
  for (let k = 0; k < out.length; k++) {
    const image = out[k].fill(b[k]);
    for (let l = 0; l < z.length; l++) {
      const [a, column] = [A[k][l], z[l]];
      for (let i = 0; i < image.length; i++) image[i] += a * column[i];
    }
  }
}

/** The scores of one query and the first `seen` keys: `q·z_j + c_j`. */
export function scoresOf(queries, keys, ofKey, row, i, seen) {
  for (let j = 0; j < seen; j++) row[j] = ofKey[j];
  for (let k = 0; k < keys.length; k++) {
    const [q, key] = [queries[k][i], keys[k]];
    for (let j = 0; j < seen; j++) row[j] += q * key[j];
  }
}

/** Weights as shares of their sum; equal ones if none are given. */
export function shares(weights, n) {
  const given = Float64Array.from(weights ?? new Array(n).fill(1));
  const mass = given.reduce((sum, w) => sum + w, 0);
  return given.map((w) => w / mass);
}
