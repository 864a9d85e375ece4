// A flow, step by step: adaptive steps, detection of blow-ups and rest, and a named ending.

import { ORDER, attempt, interpolant } from "./dopri.js";
import { Growth } from "./growth.js";
import { forms } from "./law.js";
import { eigen } from "./matrix.js";
import { gaussianStart, gaussianVelocity } from "./gaussians.js";
import { normals } from "./random.js";
import { Steady } from "./steady.js";
import { project, tangential } from "./sphere.js";
import { shares } from "./sums.js";
import { tokenVelocity } from "./tokens.js";

const NOISY = 1e-3; // relative error of a step with noise; the finite number of tokens causes larger errors
const FINEST = 200; // least number of steps with noise, since paths are drawn as lines between them

/** The measure of a law as a state of one array, its velocity, and norms of both. */
export function moved(law) {
  if (law.measure === "gaussian") {
    const d = law.start.mean.length;
    return { d, start: gaussianStart(law), velocity: gaussianVelocity(law, d), norm: length, errorNorm: length };
  }
  const [n, d] = [law.start.x.length, law.start.x[0].length];
  const weights = shares(law.start.weights, n);
  const halved = weights.map((w) => (w + 1 / n) / 2); // so that tokens of little weight are moved accurately too
  const velocity = tokenVelocity(law, weights, d);
  return {
    d, weights, start: Float64Array.from(law.start.x.flat()), velocity: law.radius ? tangential(velocity, d) : velocity,
    norm: weighted(weights, d), errorNorm: weighted(halved, d),
  };
}

/** The Euclidean norm, which overflows only if an entry does. */
function length(y) {
  let largest = 0;
  for (const value of y) largest = Math.max(largest, Math.abs(value));
  if (!(largest > 0 && Number.isFinite(largest))) return largest;
  let sum = 0;
  for (const value of y) sum += (value / largest) ** 2;
  return largest * Math.sqrt(sum);
}

const weighted = (weights, d) => (y) => length(y.map((value, at) => value * Math.sqrt(weights[Math.floor(at / d)])));

/** Whether velocities are known to be bounded linearly, by the rules of the Python library. */
function bounded(law) {
  const isGaussian = law.measure === "gaussian";
  if (law.radius) return true;
  if (law.attention === "linear" || law.attention === "exp") return false;
  if (law.attention === "sinkhorn" && !law.iterations) return true;
  if (!isGaussian) return true;
  if (law.attention !== "l2") return false;
  return forms(law).every(({ B }) => {
    const { values } = eigen(B);
    return values[0] > values.length * Number.EPSILON * values[values.length - 1];
  });
}

/** One flow; `step` returns the next step with its interpolant, until `ending` is set. */
export class Flow {
  constructor(law) {
    Object.assign(this, moved(law), { law, t: law.t0, accepted: 0, rejected: 0, velocities: 0, ending: null });
    this.y = this.start;
    const velocity = this.velocity;
    this.velocity = (y, out) => {
      this.velocities += 1;
      return velocity(y, out);
    };
    const size = this.norm(this.y);
    this.absolute = (law.rtol * (size > 0 ? size : 1)) / 10;
    this.rate = new Float64Array(this.y.length);
    if (this.velocity(this.y, this.rate) === false) this.ending = "unconverged";
    const rules = { norm: this.norm, rate: (y) => this.growthRate(y), bounded: bounded(law), rtol: law.rtol, order: ORDER };
    this.growth = new Growth(this.t, this.y, rules);
    this.steady = law.steady
      ? new Steady(law.steady, this.t, size, this.norm(this.rate), law.t - law.t0) : null;
    this.isRandom = law.measure === "points" && law.noise > 0;
    this.normal = normals(law.seed ?? 0);
    this.h = this.firstStep();
  }

  /** The next step, as `{t0, t1, parts}`; null if there is none. */
  step() {
    if (this.ending) return null;
    const step = this.isRandom ? this.randomStep() : this.adaptiveStep();
    if (step && !this.ending && this.t >= this.law.t) this.ending = "finished";
    return step;
  }

  get tStar() {
    return this.ending === "blow-up" ? this.growth.when() : null;
  }

  adaptiveStep() {
    while (this.accepted + this.rejected < this.law.max_steps) {
      const h = Math.min(this.h, this.law.t - this.t);
      const trial = attempt(this.velocity, this.y, this.rate, h);
      const error = trial ? this.relative(trial.error, this.y, trial.next, this.law.rtol, this.absolute) : Infinity;
      if (error <= 1) return this.accept(h, trial, error);
      this.rejected += 1;
      this.h = h * (Number.isFinite(error) ? Math.max(0.9 * error ** -0.2, 0.2) : 0.2);
      if (!(this.h > 4 * Number.EPSILON * Math.abs(this.t)) || this.h < Number.MIN_VALUE * 1e16) {
        return this.stuck(trial);
      }
    }
    this.ending = "max-steps";
    return null;
  }

  /** Sets the ending if steps vanish: by growth, by a velocity that cannot be computed, or for an unknown reason. */
  stuck(trial) {
    const lost = trial && !trial.next.every(Number.isFinite);
    if (this.growth.broke(this.y, true)) this.ending = "blow-up";
    else this.ending = trial ? (lost ? "not-finite" : "max-steps") : "unconverged";
    return null;
  }

  accept(h, trial, error) {
    const [t0, parts] = [this.t, interpolant(this.y, h, trial)];
    const way = trial.next.map((value, i) => value - this.y[i]);
    this.t = h === this.law.t - t0 ? this.law.t : t0 + h;
    this.y = this.law.radius ? project(trial.next, this.d, this.law.radius) : trial.next;
    this.rate = trial.stages[6];
    this.accepted += 1;
    this.h = h * Math.min(Math.max(0.9 * (error || 1e-10) ** -0.2, 0.2), 8);
    if (this.growth.after({ t: this.t, dt: h, y: this.y, way, error: trial.error })) this.ending = "blow-up";
    else if (this.steady?.after(this.t, this.norm(this.rate))) this.ending = "steady";
    return { t0, t1: this.t, parts };
  }

  /** Heun's step under additive noise. Its length is chosen before its noise is drawn. */
  randomStep() {
    const h = Math.min(this.h, (this.law.t - this.law.t0) / FINEST, this.law.t - this.t);
    const vanished = this.h <= 4 * Number.EPSILON * Math.abs(this.t);
    if (vanished || this.accepted >= this.law.max_steps) return this.ending = "max-steps", null;
    const [size, kick] = [this.y.length, Math.sqrt(2 * this.law.noise * h)];
    const noise = this.y.map(() => kick * this.normal());
    const far = this.y.map((value, i) => value + h * this.rate[i] + noise[i]);
    const there = new Float64Array(size);
    if (this.velocity(far, there) === false) return this.ending = "unconverged", null;
    const parts = new Float64Array(2 * size);
    const next = this.y.map((value, i) => value + (h / 2) * (this.rate[i] + there[i]) + noise[i]);
    if (!next.every(Number.isFinite)) return this.ending = "not-finite", null;
    parts.set(this.y);
    parts.set(next.map((value, i) => value - this.y[i]), size);
    const bend = there.map((value, i) => (h / 2) * (value - this.rate[i]));
    const error = this.relative(bend, this.y, next, NOISY, (NOISY * this.absolute) / this.law.rtol);
    const t0 = this.t;
    this.t = h === this.law.t - t0 ? this.law.t : t0 + h;
    this.y = next;
    this.h = h * Math.min(Math.max(0.9 * (error || 1e-10) ** -0.5, 0.3), 2);
    this.accepted += 1;
    if (this.velocity(this.y, this.rate) === false) this.ending = "unconverged";
    return { t0, t1: this.t, parts };
  }

  relative(error, y, next, rtol, absolute) {
    const size = this.errorNorm(
      error.map((value, i) => value / (absolute + rtol * Math.max(Math.abs(y[i]), Math.abs(next[i])))),
    );
    return Number.isNaN(size) ? Infinity : size;
  }

  /** The derivative of the logarithm of a state's size along its velocity. */
  growthRate(y) {
    const speed = new Float64Array(y.length);
    this.velocity(y, speed);
    const [size, fastest] = [this.norm(y), Math.max(...speed.map(Math.abs))];
    if (!(fastest > 0)) return fastest;
    const [state, change] = [y.map((value) => value / size), speed.map((value) => value / fastest)];
    const sum = this.norm(state.map((value, i) => value + change[i])) ** 2;
    const difference = this.norm(state.map((value, i) => value - change[i])) ** 2;
    return ((sum - difference) / 4) * (fastest / size);
  }

  /** A first step over which the state changes by a hundredth, after Hairer and others. */
  firstStep() {
    const { rtol } = this.law;
    const scaled = (vector) => this.relative(vector, this.y, this.y, rtol, this.absolute);
    const [size, speed] = [scaled(this.y), scaled(this.rate)];
    const span = this.law.t - this.law.t0;
    return Math.min(size > 1e-5 && speed > 1e-5 ? (0.01 * size) / speed : 1e-6 * span, span / 10);
  }
}
