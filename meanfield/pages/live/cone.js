// The cone of covariances: [[a, c], [c, b]] is the point (a - b, 2c, a + b); the surface is rank one.

import { clipped, disc, write } from "./pen.js";
import { momentsOf } from "./moments.js";
import { shown, ticks } from "./view.js";

const STRETCH = 1.6; // a unit of trace is drawn this many times as long as the others
const EYE = 8; // the distance of the eye, in heights
const INNER = 4; // points of the path within each step

/** The points of the cone along a history, kept as it grows. */
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

  /** The points from the start to a time, at which the covariance is known. */
  upTo(time, covariance) {
    const until = this.times.findIndex((t) => t > time);
    return [...this.points.slice(0, until < 0 ? undefined : until), coordinates(covariance)];
  }
}

export const coordinates = (S) => [S[0][0] - S[1][1], 2 * S[0][1], S[0][0] + S[1][1]];

/** A camera that looks at the middle of a cone of height one. */
export class Camera {
  constructor() {
    Object.assign(this, { azimuth: -1.05, elevation: 0.32, height: 0, box: { x: 0, y: 0, width: 1, height: 1 } });
  }

  turn(right, up) {
    this.azimuth -= right;
    this.elevation = Math.min(Math.max(this.elevation + up, -0.3), 1.4);
  }

  /** The height of the cone, which holds all points of a path. */
  follow(points, seconds) {
    const trace = points.reduce((most, [, , z]) => Math.max(most, z), 1e-300);
    const wish = 1.25 * trace;
    if (!(this.height > 0) || seconds === Infinity) this.height = wish;
    const target = this.height < wish ? wish : this.height > 3 * wish ? 3 * wish : this.height;
    this.height *= (target / this.height) ** Math.min(1, 6 * seconds);
    if (this.height < trace) this.height = trace;
  }

  project([x, y, z]) {
    const [ca, sa, ce, se] = [Math.cos(this.azimuth), Math.sin(this.azimuth), Math.cos(this.elevation), Math.sin(this.elevation)];
    const up = STRETCH * (z - 0.5);
    const flat = ca * x + sa * y;
    const size = Math.min((this.box.width - 24) / 2.4, this.box.height / (1.15 * (STRETCH * ce + 2 * Math.abs(se)) + 0.2));
    const scale = (size * EYE) / (EYE - (ce * flat + se * up));
    const [cx, cy] = [this.box.x + this.box.width / 2, this.box.y + this.box.height / 2];
    return [cx + scale * (ca * y - sa * x), cy - scale * (ce * up - se * flat)];
  }

  scaled(point) {
    return point.map((x) => x / this.height);
  }

  holds(px, py) {
    const { x, y, width, height } = this.box;
    return px >= x && px < x + width && py >= y && py < y + height;
  }
}

export function cone(pen, palette, camera, path) {
  clipped(pen, camera.box, () => {
    surface(pen, palette, camera);
    stroke(pen, palette.soft, 1, [[0, 0, 0], [0, 0, 1]], camera, [5, 4]);
    const points = path.map((point) => camera.scaled(point));
    stroke(pen, palette.focus, 2.4, points, camera);
    mark(pen, palette.soft, camera.project(points[0]), 4);
    mark(pen, palette.focus, camera.project(points[points.length - 1]), 6, palette.paper);
    words(pen, palette, camera);
  });
}

function stroke(pen, colour, width, points, camera, dash = []) {
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.setLineDash(dash);
  pen.beginPath();
  for (const point of points) pen.lineTo(...camera.project(point));
  pen.stroke();
  pen.setLineDash([]);
}

function mark(pen, colour, [x, y], radius, edge) {
  pen.beginPath();
  disc(pen, x, y, radius);
  pen.fillStyle = colour;
  pen.fill();
  if (!edge) return;
  pen.strokeStyle = edge;
  pen.lineWidth = 1.5;
  pen.stroke();
}

const ring = (z) => Array.from({ length: 73 }, (_, i) => [z * Math.cos(i * Math.PI / 36), z * Math.sin(i * Math.PI / 36), z]);

function surface(pen, palette, camera) {
  pen.beginPath();
  for (const point of ring(1)) pen.lineTo(...camera.project(point));
  pen.fillStyle = palette.glass;
  pen.globalAlpha = 0.1;
  pen.fill();
  for (let k = 0; k < 36; k++) {
    pen.beginPath();
    pen.moveTo(...camera.project([0, 0, 0]));
    for (const point of ring(1).slice(2 * k, 2 * k + 3)) pen.lineTo(...camera.project(point));
    pen.globalAlpha = 0.06;
    pen.fill();
  }
  pen.globalAlpha = 0.75;
  for (const value of levels(camera)) stroke(pen, palette.edge, 0.7, ring(value / camera.height), camera);
  stroke(pen, palette.edge, 1.4, ring(1), camera);
  pen.globalAlpha = 1;
}

const levels = (camera) => ticks(0, camera.height, 4).filter((value) => value > 0);

function words(pen, palette, camera) {
  const ends = [["a − b", [1.14, 0, 1]], ["2c", [0, 1.14, 1]]];
  for (const [text, place] of ends) write(pen, palette, text, ...camera.project(place), { align: "center", colour: palette.ink });
  const [x, y] = camera.project([0, 0, 1]);
  write(pen, palette, "tr Σ", x - 7, y - 2, { align: "right", colour: palette.ink });
  const side = camera.azimuth - Math.PI / 2; // the left edge, where no axis ends
  for (const value of levels(camera)) {
    const r = value / camera.height;
    const [px, py] = camera.project([r * Math.cos(side), r * Math.sin(side), r]);
    write(pen, palette, shown(value, 3), px - 7, py, { align: "right" });
  }
}
