// Sinkhorn attention of tokens: the potential that gives a plan both marginals.
//
// With rows normalised, f(x) = -log ∫ exp(s + g) dμ, the potential g maximises a concave function
// whose gradient is 1 - m, with m the column masses, and whose Hessian is -(diag m - P*P): Newton's
// method with conjugate gradients, from the potential of the last velocity.

import { exponentials } from "./exponential.js";
import { shrinkage } from "./gaussians.js";
import { product, root, transposed } from "./matrix.js";
import { addImage, columns, images, meanOf, scoresOf, split } from "./sums.js";

const TOLERANCE = 1e-11; // tolerance on |log m|; errors of velocities are then far below those of steps
const ROUGH = 0.3; // largest |log m| at which Newton steps are tried
const PASSES = 400; // largest number of passes over rows and columns
const FORCING = 0.05; // relative residual to which linear systems are solved
const SHORTEST = 2 ** -10; // smallest fraction of a Newton step that is tried

/** The plan of tokens: rows `κ_ij w_j` that sum to one, and column masses. */
class Plan {
  constructor(n, d, weights) {
    Object.assign(this, { n, d, weights });
    this.logs = weights.map(Math.log);
    [this.scores, this.rows] = [columns(n, n), columns(n, n)];
    this.mass = new Float64Array(n);
  }

  /** Rows and column masses for the potential `g`; the largest |log m|. */
  fill(g) {
    const { n, rows, scores, logs, mass, weights } = this;
    const potential = g.map((value, j) => value + logs[j]);
    mass.fill(0);
    rows.forEach((row, i) => {
      const score = scores[i];
      let top = -Infinity;
      for (let j = 0; j < n; j++) {
        const log = score[j] + potential[j];
        row[j] = log;
        if (log > top) top = log;
      }
      const sum = exponentials(row, n, top);
      for (let j = 0; j < n; j++) mass[j] += weights[i] * (row[j] /= sum);
    });
    let worst = 0;
    for (let j = 0; j < n; j++) {
      mass[j] = weights[j] > 0 ? mass[j] / weights[j] : 1;
      worst = Math.max(worst, Math.abs(Math.log(mass[j])));
    }
    return worst;
  }

  /** `(diag m - P*P) h`, with `P h` the means of `h` under the rows. */
  curvature(h, out) {
    const { n, rows, weights, mass } = this;
    out.fill(0);
    rows.forEach((row, i) => {
      let mean = 0;
      for (let j = 0; j < n; j++) mean += row[j] * h[j];
      mean *= weights[i];
      for (let j = 0; j < n; j++) out[j] += row[j] * mean;
    });
    for (let j = 0; j < n; j++) out[j] = weights[j] > 0 ? mass[j] * h[j] - out[j] / weights[j] : 0;
  }

  inner(a, b) {
    let sum = 0;
    for (let j = 0; j < this.n; j++) sum += this.weights[j] * a[j] * b[j];
    return sum;
  }

  /** The distance of the column masses from one: `∫ (1 - m)²/m dμ`. */
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
      if (!(bend > 0)) break; // only rounding errors remain
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

/** Solves for the potential `g` in place; returns whether the tolerance was reached. */
function solve(plan, g) {
  let error = plan.fill(g);
  for (let pass = 0; pass < PASSES && !(error <= TOLERANCE); pass++) {
    error = error > ROUGH ? alternated(plan, g) : advanced(plan, g, error);
  }
  return error <= TOLERANCE;
}

/** One alternation, over columns and then rows: `g - log m`. */
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
function gaussianPotential(A, keys, weights) {
  const moment = (a, b) => weights.reduce((sum, w, i) => sum + w * a[i] * b[i], 0);
  const Y = root(keys.map((a) => keys.map((b) => moment(a, b))));
  const S = shrinkage(transposed(product(transposed(Y), product(A, Y))));
  const toward = transposed(product(A, Y));
  const bent = product(transposed(toward), product(S, toward));
  const form = (j) => bent.reduce((sum, row, k) => sum + keys[k][j] * row.reduce((s, b, l) => s + b * keys[l][j], 0), 0);
  return weights.map((_, j) => -form(j) / 2);
}

/** Sinkhorn attention of one head, converged, or after an odd number of half-steps from zero. */
export function sinkhornHead({ A, V }, { n, d, weights, iterations }) {
  const plan = new Plan(n, d, weights);
  const [keys, queries] = [columns(n, d), columns(n, d)];
  const [mean, none] = [new Float64Array(d), new Float64Array(d)];
  let potential = null;
  return (x, out) => {
    const origin = iterations ? none : meanOf(x, weights, d); // a potential that starts from zero depends on the origin
    split(x, origin, keys);
    images(A, keys, none, queries);
    score(plan, queries, keys);
    potential = iterations ? new Float64Array(n) : potential ?? gaussianPotential(A, keys, weights);
    const found = iterations ? repeated(plan, potential, (iterations - 1) / 2) : solve(plan, potential);
    if (!found) potential = null; // the next velocity starts from scratch
    plan.rows.forEach((row, i) => {
      for (let k = 0; k < d; k++) {
        mean[k] = origin[k];
        for (let j = 0; j < n; j++) mean[k] += row[j] * keys[k][j];
      }
      addImage(V, mean, out, i);
    });
    return found;
  };
}

function score({ scores, n }, queries, keys) {
  const zero = new Float64Array(n);
  scores.forEach((row, i) => scoresOf(queries, keys, zero, row, i, n));
}

function repeated(plan, g, times) {
  plan.fill(g);
  for (let pass = 0; pass < times; pass++) alternated(plan, g);
  return true;
}
