// The path of a covariance in the cone, while it is integrated.

import { momentsOf } from "./moments.js";
import { ticks } from "../../plotting/pages/scales.js";

const INNER = 4; // number of points of the path within each step

/** The points in the cone along a history, extended as it grows. */
export class Path {
  constructor(history) {
    Object.assign(this, { history, times: [], points: [], seen: 0 });
    this.push(history.cloud.t0, history.cloud.first);
  }

  push(t, state) {
    this.times.push(t);
    this.points.push(coordinates(momentsOf(this.history.cloud, state).covariance));
  }

  grow() {
    for (const { t0, t1 } of this.history.steps.slice(Math.max(this.seen - this.history.forgotten, 0))) {
      for (let k = 1; k <= INNER; k++) {
        const t = t0 + ((t1 - t0) * k) / INNER;
        this.push(t, this.history.at(t));
      }
    }
    this.seen = this.history.forgotten + this.history.steps.length;
  }

  /** The points from the start to a time at which the covariance is known. */
  upTo(time, covariance) {
    const until = this.times.findIndex((t) => t > time);
    return [...this.points.slice(0, until < 0 ? undefined : until), coordinates(covariance)];
  }
}

export const coordinates = (S) => [S[0][0] - S[1][1], 2 * S[0][1], S[0][0] + S[1][1]];

/** The height of the cone after some seconds: it follows the highest point of a path, at once if `seconds` is infinite. */
export function followed(height, points, seconds) {
  const trace = points.reduce((most, [, , z]) => Math.max(most, z), 1e-300);
  const wish = 1.25 * trace;
  if (!(height > 0) || seconds === Infinity) return wish;
  const target = height < wish ? wish : height > 3 * wish ? 3 * wish : height;
  return Math.max(height * (target / height) ** Math.min(1, 6 * seconds), trace);
}

/** A path in a cone of a given height, in the form that the painter needs. */
export function coneOf(points, height) {
  return {
    points: Float64Array.from(points.flat()), times: Float64Array.from(points, (_, i) => i / points.length),
    starts: [0, points.length], rings: ticks(0, height, 4).filter((z) => z > 0), limit: null, unit: 1 / height, height,
  };
}
