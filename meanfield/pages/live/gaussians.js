// Gaussians under attention, in closed form: x ↦ Lx + b moves the mean and a factor Y of Σ = YYᵀ.

import { forms } from "./law.js";
import {
  applied, dot, eigen, identity, ofEigenvalues, plus, product, root, scaled, solved, solvedPositive, square, transposed,
} from "./matrix.js";

/** `(Σ⁻¹ + B)⁻¹ R` for any rank of Σ = YYᵀ; a missing `B` is zero. */
function tilted(Y, B, R) {
  const inner = product(transposed(Y), R);
  if (!B) return product(Y, inner);
  const gram = plus(identity(Y[0].length), product(transposed(Y), product(B, Y)));
  return product(Y, solvedPositive(gram, inner));
}

const column = (x) => x.map((a) => [a]);
const flat = (X) => X.map((row) => row[0]);

/** The mean of a Gaussian tilted by `y·(Ax + a) - ½ y·By`, as `Lx + b`. */
function tiltedAffine(mean, Y, A, B, a) {
  const pull = B ? a.map((value, i) => value - dot(B[i], mean)) : a;
  const shift = flat(tilted(Y, B, column(pull)));
  return { L: tilted(Y, B, A), b: mean.map((m, i) => m + shift[i]) };
}

const softmax = (mean, Y, { A, B }) => tiltedAffine(mean, Y, A, B, mean.map(() => 0));

function linear(mean, Y, { A }) {
  const second = plus(square(Y), mean.map((a) => mean.map((b) => a * b)));
  return { L: product(second, A), b: mean.map(() => 0) };
}

/** `U diag(1/h) Uᵀ` for `M = U diag(σ) Wᵀ` with `h = (1 + √(1 + 4σ²))/2`. */
export const shrinkage = (M) => ofEigenvalues(square(M), (s) => 2 / (1 + Math.sqrt(1 + 4 * Math.max(s, 0))));

/** Converged: `L = Y U diag(1/h) Uᵀ Yᵀ A`, `b = α - Lα`. */
function sinkhorn(mean, Y, { A }) {
  const inner = product(transposed(Y), A);
  const L = product(Y, product(shrinkage(product(inner, Y)), inner));
  const moved = applied(L, mean);
  return { L, b: mean.map((m, i) => m - moved[i]) };
}

/** After an odd number of half-steps: softmax tilted by the quadratic potential that they build. */
function halfSteps(count) {
  return (mean, Y, { A }) => {
    let [B, a] = [A.map((row) => row.map(() => 0)), mean.map(() => 0)];
    for (let pass = 0; pass < (count - 1) / 2; pass++) {
      [B, a] = absorbed(mean, Y, A, B, a);
      [B, a] = absorbed(mean, Y, transposed(A), B, a);
    }
    return tiltedAffine(mean, Y, A, B, a);
  };
}

function absorbed(mean, Y, A, B, a) {
  const { L, b } = tiltedAffine(mean, Y, A, B, a);
  return [product(transposed(A), L), applied(transposed(A), b).map((value) => -value)];
}

function affineOf(law) {
  if (law.attention === "linear") return linear;
  if (law.attention === "sinkhorn") return law.iterations ? halfSteps(law.iterations) : sinkhorn;
  if (["softmax", "l2"].includes(law.attention)) return softmax;
  throw new RangeError(`no closed form of ${law.attention}`);
}

/** The mean and the factor in a state: first the mean, then the factor row by row. */
export function unpacked(y, d) {
  const rank = y.length / d - 1;
  const row = (i) => Array.from(y.subarray(d + i * rank, d + (i + 1) * rank));
  return { mean: Array.from(y.subarray(0, d)), factor: Array.from({ length: d }, (_, i) => row(i)) };
}

export const packed = (mean, factor) => Float64Array.from([...mean, ...factor.flat()]);

/** The velocity of a state. Noise κ adds `κ Y⁻ᵀ` to that of the factor: `2κI` to that of Σ. */
export function gaussianVelocity(law, d) {
  const [heads, affine] = [forms(law), affineOf(law)];
  return (y, out) => {
    const { mean, factor } = unpacked(y, d);
    let speed = mean.map(() => 0);
    let rate = factor.map((row) => row.map(() => 0));
    for (const head of heads) {
      const { L, b } = affine(mean, factor, head);
      const moved = applied(L, mean).map((value, i) => value + b[i]);
      speed = applied(head.V, moved).map((value, i) => value + speed[i]);
      rate = plus(rate, product(head.V, product(L, factor)));
    }
    if (law.noise) rate = plus(rate, scaled(solved(transposed(factor), identity(d)), law.noise));
    out.set(packed(speed, rate));
  };
}

/** The start; with noise, its factor is made square and of full rank. */
export function gaussianStart({ start: { mean, factor }, noise, t, t0 }) {
  const d = mean.length;
  if (!noise) return packed(mean, factor);
  const covariance = square(factor);
  const variance = covariance.reduce((sum, row, i) => sum + row[i], 0) / d + 2 * noise * (t - t0);
  const least = Number.EPSILON * variance; // below the rounding error of half of each variance
  const regular = factor[0].length === d && eigen(covariance).values[0] > least;
  return packed(mean, regular ? factor : root(plus(covariance, scaled(identity(d), least))));
}
