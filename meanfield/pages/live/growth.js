// Detection of finite-time blow-ups, distinguished from unbounded growth by the growth law.
//
// Near a blow-up a size grows like u ~ c (t* - t)^-γ: the time to grow by a factor shrinks to zero
// like u^-κ with κ = 1/γ. The record, its numbers and its verdicts are those of the Python library.

const LENGTH = 16; // number of recorded points
const ENOUGH = 12; // least number of distinct points for a verdict
const SPACING = 0.25; // least growth between recorded points, in e-folds of the size
const SHRINKAGE = 0.7; // a point is also recorded if the step shrinks by this factor
const SAME = 0.2; // largest relative difference of exponents of the same law
const SIZES = 4 * Math.log(10); // number of e-folds of the size over which a law must hold
const FALL = 3; // e-folds by which the time per e-fold must fall meanwhile
const RESOLUTION = 128; // times left below this many rounding errors of t are not resolved
const BLIND = 2 * SIZES; // e-folds of size left before overflow, below which nothing can be tested
const ESTIMATED = 2; // factor of a step's estimated error in its shift of the blow-up time
const CURVED = 2e-3; // factor of the error that the order of the method allows
const ASKED = 1e-3; // share of the tolerance in the shift of the blow-up time
const ROUNDINGS = 32; // least error of the blow-up time, in rounding errors

const MIDDLE = LENGTH / 2;

export function newRecord(t, logSize) {
  return {
    ts: new Array(LENGTH).fill(t), logs: new Array(LENGTH).fill(logSize),
    dt: Infinity, held: 1, kappa: 0, since: logSize,
  };
}

/** The record after a step, which enters if it is far enough from the newest. */
export function pushed(record, t, logSize, dt) {
  const changed = Math.abs(logSize - record.logs[LENGTH - 1]) >= SPACING;
  if (!changed && !(dt <= SHRINKAGE * record.dt)) return record;
  const ts = [...record.ts.slice(1), t];
  const logs = [...record.logs.slice(1), logSize];
  const held = Math.min(record.held + 1, LENGTH);
  const { kappa } = halves({ ts, logs });
  const same = Math.abs(kappa - record.kappa) <= SAME * record.kappa;
  return { ts, logs, dt, held, kappa: same ? record.kappa : kappa, since: same ? record.since : logs[0] };
}

/** The older and the newer half of a record, and the exponent of the power law through both. */
function halves({ ts, logs }) {
  const grown = [logs[MIDDLE] - logs[0], logs[LENGTH - 1] - logs[MIDDLE]];
  const spent = [ts[MIDDLE] - ts[0], ts[LENGTH - 1] - ts[MIDDLE]];
  const grows = grown.every((e) => e > 0) && spent.every((s) => s > 0);
  const kappa = grows ? Math.log((spent[0] / grown[0]) / (spent[1] / grown[1])) / ((grown[0] + grown[1]) / 2) : 0;
  return { grown, spent, kappa };
}

function timeLeft({ grown, spent, kappa }) {
  return kappa > 0 ? spent[1] / Math.expm1(kappa * grown[1]) : Infinity;
}

/** Whether the time per e-fold fell by a quarter from the older to the newer half. */
function accelerates(record) {
  const { grown, spent } = halves(record);
  const faster = spent[1] * grown[0] < 0.75 * spent[0] * grown[1];
  return record.held >= ENOUGH && grown[0] > 0 && grown[1] > 0 && faster;
}

/** Whether one power law has held for long enough to be believed. */
function certain(record) {
  const grown = record.logs[LENGTH - 1] - record.since;
  return record.held === LENGTH && grown >= SIZES && record.kappa * grown >= FALL;
}

function soon(record, t0) {
  return timeLeft(halves(record)) <= Number.EPSILON ** 0.4 * (record.ts[LENGTH - 1] - t0);
}

/** Whether growth accelerates while later steps would not improve the estimate of its time. */
function exhausted(record, t0, error) {
  const left = timeLeft(halves(record));
  const spent = left <= RESOLUTION * Number.EPSILON * Math.abs(record.ts[LENGTH - 1]);
  return accelerates(record) && ((left <= error && soon(record, t0)) || spent);
}

/** t* and its error from the law through the whole record and through its newer half. */
function blowUpTime({ ts, logs }, drift) {
  const at = (...places) => threePoints(places.map((p) => ts[p]), places.map((p) => logs[p]));
  const whole = at(0, MIDDLE, LENGTH - 1);
  const newer = at(MIDDLE, (3 * LENGTH) / 4, LENGTH - 1);
  return { time: newer, error: Math.abs(newer - whole) + drift };
}

/** t* such that `t* - t = c u^(-1/γ)` through three points, by bisection of the exponent. */
function threePoints(t, logs) {
  const [a, b] = [logs[1] - logs[0], logs[2] - logs[1]];
  const target = Math.log((t[2] - t[1]) / (t[1] - t[0]));
  let [low, high] = [-12, 12];
  for (let k = 0; k < 60; k++) {
    const middle = (low + high) / 2;
    const kappa = Math.exp(middle);
    const ratio = Math.log(-Math.expm1(-kappa * b)) - Math.log(-Math.expm1(-kappa * a)) - kappa * a;
    if (ratio - target > 0) low = middle;
    else high = middle;
  }
  return t[2] + (t[2] - t[1]) / Math.expm1(Math.exp((low + high) / 2) * b);
}

/** The initial size divided by the part of it that blows up; at least 1. */
function disguise(record, t0, logSize0) {
  const parts = halves(record);
  const left = timeLeft(parts);
  if (!(parts.kappa > 0 && Number.isFinite(left) && left > 0)) return 1;
  const grown = Math.log1p((record.ts[LENGTH - 1] - t0) / left) / parts.kappa;
  const excess = logSize0 - (record.logs[LENGTH - 1] - grown);
  return Math.exp(Math.max(excess, 0));
}

/** Judges growth after each step of a flow.
 *
 * Args:
 *   norm: of a state or a change of it.
 *   rate: the derivative of the log of the size of a state along its velocity.
 *   bounded: whether velocities are known to be bounded linearly, so that nothing blows up. */
export class Growth {
  constructor(t0, y0, { norm, rate, bounded, rtol, order }) {
    Object.assign(this, { t0, norm, rate, bounded, rtol, order, blur: 0, speed: NaN, way: null, follows: false });
    this.logSize0 = Math.log(norm(y0));
    this.record = newRecord(t0, this.logSize0);
  }

  /** Whether the flow ends here because of its growth. */
  after(step) {
    if (this.bounded) return false;
    this.remember(step);
    const near = (certain(this.record) && soon(this.record, this.t0))
      || exhausted(this.record, this.t0, this.timeError(this.blur, step.t));
    return this.asked(near, step.y, near || (certain(this.record) && this.room(step.y) <= 2 * BLIND));
  }

  /** Whether growth explains that steps vanished or overflowed at the state `y`. */
  broke(y, vanished) {
    if (this.bounded || !this.way) return false;
    const breaks = (vanished && accelerates(this.record)) || certain(this.record);
    return this.asked(breaks, y, breaks);
  }

  asked(near, y, asks) {
    if (asks) this.follows = this.room(y) > BLIND ? this.goesOn(y) : this.follows;
    return near && this.follows;
  }

  remember({ t, dt, y, way, error }) {
    const size = this.norm(y);
    const speed = Math.log(this.norm(way) / dt) - Math.log(size);
    const gain = Math.abs(speed - this.speed);
    const curved = (Number.isFinite(gain) ? gain : 0) + (dt * Math.exp(speed)) / 2;
    const shift = (ESTIMATED * this.norm(error)) / size + CURVED * curved ** this.order + ASKED * this.rtol;
    this.blur += dt * shift;
    this.speed = speed;
    this.way = way;
    this.record = pushed(this.record, t, Math.log(size), dt);
  }

  room(y) {
    return Math.log(Number.MAX_VALUE) / 2 - Math.log(this.norm(y));
  }

  timeError(blur, t) {
    return blur + ROUNDINGS * Number.EPSILON * Math.abs(t);
  }

  /** Whether the field four decades of size ahead follows the law of the record. */
  goesOn(y) {
    const size = this.norm(y);
    const looks = [0, 0.5, 1].map((share) => {
      const stretch = (Math.exp(share * SIZES) * size) / (this.norm(this.way) || 1);
      const ahead = y.map((value, i) => value + stretch * this.way[i]);
      return { grown: Math.log(this.norm(ahead)) - Math.log(size), rate: Math.log(Math.max(this.rate(ahead), 0)) };
    });
    const [here, half, whole] = looks;
    const first = (half.rate - here.rate) / half.grown;
    const second = (whole.rate - half.rate) / (whole.grown - half.grown);
    const steady = !(second < (1 - SAME) * first);
    const needed = (1 - SAME) * halves(this.record).kappa * whole.grown;
    const gained = whole.rate - here.rate;
    return Number.isFinite(here.rate) && steady && whole.grown > 0 && !(gained < needed);
  }

  /** The time at which the size becomes infinite, with its error. */
  when() {
    const blur = this.blur * disguise(this.record, this.t0, this.logSize0);
    return blowUpTime(this.record, this.timeError(blur, this.record.ts[LENGTH - 1]));
  }
}
