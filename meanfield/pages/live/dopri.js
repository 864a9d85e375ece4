// One step of Dormand and Prince's pair 5(4), and its interpolant; Hairer, Nørsett, Wanner, II.5 and II.6.

const A = [
  [],
  [1 / 5],
  [3 / 40, 9 / 40],
  [44 / 45, -56 / 15, 32 / 9],
  [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
  [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
  [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
];
const E = [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40];
const D = [
  -12715105075 / 11282082432, 0, 87487479700 / 32700410799, -10690763975 / 1880347072,
  701980252875 / 199316789632, -1453857185 / 822651844, 69997945 / 29380423,
];
export const ORDER = 5;

/** Tries a step of length `h` from `y`, where the velocity is `first`.
 *
 * Returns the new state, the estimated error, and the stages, of which the last is the velocity at
 * the new state; false if a velocity could not be computed. */
export function attempt(velocity, y, first, h) {
  const stages = [first];
  const next = new Float64Array(y.length);
  for (let s = 1; s < 7; s++) {
    for (let i = 0; i < y.length; i++) {
      let sum = 0;
      for (let r = 0; r < s; r++) sum += A[s][r] * stages[r][i];
      next[i] = y[i] + h * sum;
    }
    const stage = new Float64Array(y.length);
    if (velocity(next, stage) === false) return false;
    stages.push(stage);
  }
  const error = next.map((_, i) => h * stages.reduce((sum, stage, s) => sum + E[s] * stage[i], 0));
  return { next, error, stages };
}

/** The five arrays, concatenated, from which a step is interpolated to fourth order. */
export function interpolant(y, h, { next, stages }) {
  const size = y.length;
  const parts = new Float64Array(5 * size);
  for (let i = 0; i < size; i++) {
    const change = next[i] - y[i];
    const bend = h * stages[0][i] - change;
    parts[i] = y[i];
    parts[size + i] = change;
    parts[2 * size + i] = bend;
    parts[3 * size + i] = change - h * stages[6][i] - bend;
    parts[4 * size + i] = h * stages.reduce((sum, stage, s) => sum + D[s] * stage[i], 0);
  }
  return parts;
}

/** The state at a fraction of a step, from two arrays (a straight line) or five. */
export function interpolated(parts, size, share, out) {
  const rest = 1 - share;
  for (let i = 0; i < size; i++) {
    const bent = parts.length === 5 * size
      ? rest * (parts[2 * size + i] + share * (parts[3 * size + i] + rest * parts[4 * size + i]))
      : 0;
    out[i] = parts[i] + share * (parts[size + i] + bent);
  }
}
