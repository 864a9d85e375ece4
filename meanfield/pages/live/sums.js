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

/** `A (x_i - c)` for each token. */
export function images(A, x, c, out) {
  const d = c.length;
  for (let at = 0; at < x.length; at += d) {
    for (let k = 0; k < d; k++) {
      let sum = 0;
      for (let l = 0; l < d; l++) sum += A[k][l] * (x[at + l] - c[l]);
      out[at + k] = sum;
    }
  }
}

/** Weights as shares of their sum; equal ones if none are given. */
export function shares(weights, n) {
  const given = Float64Array.from(weights ?? new Array(n).fill(1));
  const mass = given.reduce((sum, w) => sum + w, 0);
  return given.map((w) => w / mass);
}
