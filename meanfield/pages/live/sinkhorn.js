// Sinkhorn attention of tokens: the potential that gives a plan both marginals.
//
// With rows normalised, f(x) = -log ∫ exp(s + g) dμ, the potential g maximises a concave function
// whose gradient is 1 - m, with m the column masses, and whose Hessian is -(diag m - P*P): Newton's
// method with conjugate gradients, from the potential of the last velocity.

import { shrinkage } from "./gaussians.js";
import { product, root, transposed } from "./matrix.js";
import { addImage, images, meanOf } from "./sums.js";

const TOLERANCE = 1e-11; // on |log m|: an error of velocities far below that of any step
const ROUGH = 0.3; // from here on Newton's steps are tried
const PASSES = 400; // over rows and columns, before the potential is given up
const FORCING = 0.05; // how far a linear system is solved
const SHORTEST = 2 ** -10; // of a Newton step

/** The plan of tokens: rows `R_ij = κ_ij w_j` that sum to one, and column masses. */
class Plan {
  constructor(n, d, weights) {
    Object.assign(this, { n, d, weights });
    this.logs = weights.map(Math.log);
    this.counted = Array.from(weights, (w) => w > 0);
    this.scores = new Float64Array(n * n);
    this.rows = new Float64Array(n * n);
    this.mass = new Float64Array(n);
  }

  /** Rows and column masses for the potential `g`; the largest |log m|. */
  fill(g) {
    const { n, rows, scores, logs, mass, weights } = this;
    mass.fill(0);
    for (let i = 0; i < n; i++) {
      const at = i * n;
      let top = -Infinity;
      for (let j = 0; j < n; j++) {
        const log = scores[at + j] + g[j] + logs[j];
        rows[at + j] = log;
        if (log > top) top = log;
      }
      let sum = 0;
      for (let j = 0; j < n; j++) sum += rows[at + j] = Math.exp(rows[at + j] - top);
      for (let j = 0; j < n; j++) mass[j] += weights[i] * (rows[at + j] /= sum);
    }
    let worst = 0;
    for (let j = 0; j < n; j++) {
      mass[j] = this.counted[j] ? mass[j] / weights[j] : 1;
      worst = Math.max(worst, Math.abs(Math.log(mass[j])));
    }
    return worst;
  }

  /** `(diag m - P*P) h`, with `P h` the means of `h` under the rows. */
  curvature(h, out) {
    const { n, rows, weights, mass } = this;
    out.fill(0);
    for (let i = 0; i < n; i++) {
      let mean = 0;
      for (let j = 0; j < n; j++) mean += rows[i * n + j] * h[j];
      mean *= weights[i];
      for (let j = 0; j < n; j++) out[j] += rows[i * n + j] * mean;
    }
    for (let j = 0; j < n; j++) out[j] = this.counted[j] ? mass[j] * h[j] - out[j] / weights[j] : 0;
  }

  inner(a, b) {
    let sum = 0;
    for (let j = 0; j < this.n; j++) sum += this.weights[j] * a[j] * b[j];
    return sum;
  }

  /** How far column masses are from one: `∫ (1 - m)²/m dμ`. */
  gap() {
    return this.inner(this.mass.map((m) => (1 - m) ** 2 / m), new Float64Array(this.n).fill(1));
  }

  /** The Newton step, by conjugate gradients preconditioned by `1/m`. */
  newtonStep() {
    const residual = this.mass.map((m) => 1 - m);
    const step = new Float64Array(this.n);
    const image = new Float64Array(this.n);
    let direction = residual.map((r, j) => r / this.mass[j]);
    let decrement = this.inner(residual, direction);
    const enough = FORCING ** 2 * decrement;
    for (let k = 0; k < 200 && decrement > enough; k++) {
      this.curvature(direction, image);
      const bend = this.inner(direction, image);
      if (!(bend > 0)) break; // all that is left is rounding
      const length = decrement / bend;
      for (let j = 0; j < this.n; j++) {
        step[j] += length * direction[j];
        residual[j] -= length * image[j];
      }
      const solution = residual.map((r, j) => r / this.mass[j]);
      const next = this.inner(residual, solution);
      direction = solution.map((s, j) => s + (next / decrement) * direction[j]);
      decrement = next;
    }
    return step;
  }
}

/** Brings the potential `g` to its tolerance, in place; whether that was reached. */
function solve(plan, g) {
  let error = plan.fill(g);
  for (let pass = 0; pass < PASSES && !(error <= TOLERANCE); pass++) {
    error = error > ROUGH ? alternated(plan, g) : advanced(plan, g, error);
  }
  return error <= TOLERANCE;
}

/** Columns, then rows: `g - log m`. */
function alternated(plan, g) {
  for (let j = 0; j < g.length; j++) g[j] -= Math.log(plan.mass[j]);
  return plan.fill(g);
}

/** A Newton step, shortened until it brings masses closer to one; alternation if none does. */
function advanced(plan, g, error) {
  const [before, gap, step] = [Float64Array.from(g), plan.gap(), plan.newtonStep()];
  for (let length = 1; length >= SHORTEST; length /= 2) {
    for (let j = 0; j < g.length; j++) g[j] = before[j] + length * step[j];
    const reached = plan.fill(g);
    if (plan.gap() <= (1 - 1e-4 * length) * gap || reached <= error / 2) return reached;
  }
  g.set(before);
  plan.fill(g);
  return alternated(plan, g);
}

/** The potential of Gaussians with the moments of the tokens: `-½ z·Sz`, `z = YᵀAᵀ(y - α)`. */
function gaussianPotential(A, keys, weights, d) {
  const covariance = A.map((_, k) => A.map((_, l) => {
    let sum = 0;
    for (let i = 0; i < weights.length; i++) sum += weights[i] * keys[i * d + k] * keys[i * d + l];
    return sum;
  }));
  const Y = root(covariance);
  const S = shrinkage(transposed(product(transposed(Y), product(A, Y))));
  const toward = transposed(product(A, Y));
  const bent = product(transposed(toward), product(S, toward));
  return Float64Array.from(weights, (_, j) => {
    let sum = 0;
    for (let k = 0; k < d; k++) for (let l = 0; l < d; l++) sum -= keys[j * d + k] * bent[k][l] * keys[j * d + l];
    return sum / 2;
  });
}

/** Sinkhorn attention of one head, converged, or after an odd number of half-steps from zero. */
export function sinkhornHead({ A, V }, { n, d, weights, iterations }) {
  const plan = new Plan(n, d, weights);
  const [queries, keys, mean] = [new Float64Array(n * d), new Float64Array(n * d), new Float64Array(d)];
  const none = new Float64Array(d);
  let potential = null;
  return (x, out) => {
    const centre = meanOf(x, weights, d);
    const origin = iterations ? none : centre; // potentials from zero know where zero is
    images(A, x, origin, queries);
    for (let at = 0; at < n * d; at++) keys[at] = x[at] - origin[at % d];
    score(plan, queries, keys);
    potential = iterations ? new Float64Array(n) : potential ?? gaussianPotential(A, keys, weights, d);
    const found = iterations ? repeated(plan, potential, (iterations - 1) / 2) : solve(plan, potential);
    if (!found) potential = null; // the next velocity begins anew
    for (let i = 0; i < n; i++) {
      mean.set(origin);
      for (let j = 0; j < n; j++) for (let k = 0; k < d; k++) mean[k] += plan.rows[i * n + j] * keys[j * d + k];
      addImage(V, mean, out, i);
    }
    return found;
  };
}

function score(plan, queries, keys) {
  const { n, d, scores } = plan;
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) {
      let sum = 0;
      for (let k = 0; k < d; k++) sum += queries[i * d + k] * keys[j * d + k];
      scores[i * n + j] = sum;
    }
  }
}

function repeated(plan, g, times) {
  plan.fill(g);
  for (let pass = 0; pass < times; pass++) alternated(plan, g);
  return true;
}
