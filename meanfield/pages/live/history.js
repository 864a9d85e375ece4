// The steps integrated so far with their interpolants, which give the state at any time.

import { interpolated } from "./dopri.js";
import { project } from "./sphere.js";

const ROOM = 160e6; // largest number of bytes of interpolants; the oldest are dropped beyond it

export class History {
  constructor(cloud, room = ROOM) {
    Object.assign(this, { cloud, room, steps: [], forgotten: 0, end: null, bytes: 0, from: cloud.t0 });
    this.size = cloud.first.length;
  }

  /** The last time that was integrated. */
  get to() {
    return this.steps.length ? this.steps[this.steps.length - 1].t1 : this.cloud.t0;
  }

  /** The last time that a reader can expect. */
  get horizon() {
    return this.end ? this.to : this.cloud.t;
  }

  add(steps) {
    for (const step of steps) {
      this.steps.push(step);
      this.bytes += step.parts.byteLength;
    }
    while (this.bytes > this.room) {
      this.bytes -= this.steps.shift().parts.byteLength;
      this.forgotten += 1;
    }
    if (this.steps.length) this.from = this.steps[0].t0;
  }

  /** The index of the step that contains a time. */
  index(t) {
    let [low, high] = [0, this.steps.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.steps[middle].t1 < t) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The state at a time, or at the nearest known time. */
  at(t, out = new Float64Array(this.size)) {
    if (!this.steps.length) {
      out.set(this.cloud.first);
      return out;
    }
    const { t0, t1, parts } = this.steps[this.index(t)];
    interpolated(parts, this.size, Math.min(Math.max((t - t0) / (t1 - t0), 0), 1), out);
    if (this.cloud.radius) project(out, this.cloud.d, this.cloud.radius);
    return out;
  }
}
