// The cone of covariances: [[a, c], [c, b]] is the point (a − b, 2c, a + b); the surface is rank one.

import { haloed } from "./palette.js";
import { shown, within } from "./scales.js";

const STRETCH = 1.7; // length of a unit of trace, relative to a unit of the other coordinates
const EYE = 8; // distance of the eye, in heights of the cone
const HOME = { azimuth: -1.08, elevation: 0.3, zoom: 1 };

/** The number clipped to an interval. */
const clamped = (value, low, high) => Math.min(Math.max(value, low), high);

/** A camera at a finite distance that looks at the middle of a cone and draws in a box of the page. */
export class ConeCamera {
  constructor() {
    Object.assign(this, HOME, { box: { x: 0, y: 0, width: 1, height: 1 } });
  }

  home() {
    Object.assign(this, HOME);
  }

  turn(right, up) {
    this.azimuth -= right;
    this.elevation = clamped(this.elevation + up, -0.6, 1.45);
  }

  zoomBy(factor) {
    this.zoom = clamped(this.zoom * factor, 0.5, 12);
  }

  /** Whether a place on the page is in the box. */
  holds(px, py) {
    const { x, y, width, height } = this.box;
    return px >= x && px < x + width && py >= y && py < y + height;
  }

  /** The vectors of the view, computed once for each picture. */
  view() {
    const { azimuth, elevation, box } = this;
    const [ca, sa, ce, se] = [Math.cos(azimuth), Math.sin(azimuth), Math.cos(elevation), Math.sin(elevation)];
    const top = (STRETCH / 2) * ce + Math.abs(se);
    const bottom = Math.max((STRETCH / 2) * ce, Math.abs(se) - (STRETCH / 2) * ce);
    const size = this.zoom * Math.min(box.width / 2.6, box.height / (1.06 * (top + bottom) + 0.3));
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2 + (size * (top - bottom)) / 2];
    return { azimuth, ca, sa, ce, se, size, x, y, isSmall: box.width < 480 };
  }
}

/** The place on the page and the depth (larger is nearer) of a point in units of the height. */
function project(view, x, y, z) {
  const up = STRETCH * (z - 0.5);
  const flat = view.ca * x + view.sa * y;
  const depth = view.ce * flat + view.se * up;
  const scale = (view.size * EYE) / (EYE - depth);
  return [view.x + scale * (view.ca * y - view.sa * x), view.y - scale * (view.ce * up - view.se * flat), depth];
}

/** The paths of a page: points (x, y, z), times in [0, 1], and the index where each path begins.
 *
 * Lengths times `unit` are in heights of the cone. */
export function unpackedCone(source) {
  const bytes = Uint8Array.from(atob(source.rows), (letter) => letter.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const count = bytes.length / 8;
  const [points, times] = [new Float32Array(3 * count), new Float32Array(count)];
  for (let i = 0; i < count; i++) {
    for (let k = 0; k < 3; k++) points[3 * i + k] = view.getInt16(8 * i + 2 * k, true) / source.steps;
    times[i] = view.getInt16(8 * i + 6, true) / source.steps;
  }
  const starts = [0];
  for (const length of source.lengths) starts.push(starts[starts.length - 1] + length);
  const limit = source.limit && source.limit.map((vertex) => vertex.map((x) => x / source.height));
  return { points, times, starts, limit, rings: source.rings, unit: 1, height: source.height };
}

/** The half angle of the part of the surface that faces the eye, on either side of the azimuth.
 *
 * The outward normal is (cos φ, sin φ, -1/STRETCH), and the plane that touches the cone along a
 * ray holds the apex: the ray faces the eye where the eye is above that plane. */
function facing(view) {
  const above = EYE * view.se + STRETCH / 2;
  return Math.acos(clamped(above / (STRETCH * EYE * view.ce), -1, 1));
}

/** The normal of a limit plane, on the side of the eye; null without a plane. */
function wall(view, limit) {
  if (!limit || limit.length < 3) return null;
  const [, [a, b, c], [p, q, r]] = limit;
  const normal = [b * r - c * q, c * p - a * r, a * q - b * p];
  const eye = [EYE * view.ce * view.ca, EYE * view.ce * view.sa, 0.5 + (EYE * view.se) / STRETCH];
  const side = Math.sign(normal[0] * eye[0] + normal[1] * eye[1] + normal[2] * eye[2]);
  return normal.map((x) => side * x);
}

/** Paints a cone from back to front, with its paths up to a moment.
 *
 * `look(path)` is how a path looks, null if it is hidden: `{ colour, marker, share, ahead }`, with
 * the share of its width and opacity, and whether the rest of its way is seen; `hidden` has the
 * names of other parts that are. The places of points on the page are kept as `cone.places`. */
export function paintCone(pen, palette, camera, cone, { now = 1, look, hidden = new Set(), hovered = -1 }) {
  const brush = { pen, palette, cone, hidden, view: camera.view() };
  const [{ azimuth }, half] = [camera, facing(brush.view)];
  pen.lineCap = pen.lineJoin = "round";
  surface(brush, azimuth + half, azimuth + 2 * Math.PI - half, 0.45);
  const threads = projected(brush, now, look);
  for (const thread of threads.filter(({ far }) => far)) stroke(brush, thread);
  paintLimit(brush);
  axis(brush);
  for (const thread of threads.filter(({ far }) => !far)) stroke(brush, thread);
  for (const thread of threads) tips(brush, thread);
  surface(brush, azimuth - half, azimuth + half, 0.85);
  highlight(brush, threads.find(({ path }) => path === hovered));
  labels(brush, half);
}

function polygon({ pen, view }, vertices, closed) {
  pen.beginPath();
  for (const vertex of vertices) pen.lineTo(...project(view, ...vertex));
  if (closed) pen.closePath();
}

function arc(from, to, height) {
  return Array.from({ length: 65 }, (_, i) => {
    const angle = from + ((to - from) * i) / 64;
    return [height * Math.cos(angle), height * Math.sin(angle), height];
  });
}

/** The colour of the surface, denser towards its edges, where it is seen at a grazing angle. */
function glass({ pen, palette, view }, edges) {
  const apex = project(view, 0, 0, 0);
  const turns = edges.map((edge) => { // clockwise from straight up
    const [x, y] = project(view, ...edge);
    return Math.atan2(x - apex[0], apex[1] - y);
  }).sort((a, b) => a - b);
  const fan = pen.createConicGradient(turns[0] - Math.PI / 2, apex[0], apex[1]);
  for (let i = 0; i <= 20; i++) {
    const alpha = 0.1 + 0.22 * Math.abs(i / 10 - 1) ** 3;
    fan.addColorStop(((i / 20) * (turns[1] - turns[0])) / (2 * Math.PI), `rgb(${palette.glass} / ${alpha})`);
  }
  return fan;
}

/** Draws part of the surface with its rings and its part of the rim. */
function surface(brush, from, to, strength) {
  if (to - from < 1e-3) return;
  const { pen, palette, cone } = brush;
  const rim = arc(from, to, 1);
  const whole = to - from > 2 * Math.PI - 1e-3;
  pen.fillStyle = whole ? `rgb(${palette.glass} / 0.1)` : glass(brush, [rim[0], rim[64]]);
  polygon(brush, [[0, 0, 0], ...rim], true);
  pen.fill();
  pen.strokeStyle = palette.edge;
  pen.globalAlpha = strength;
  for (const height of [...cone.rings.map((z) => z / cone.height), 1]) {
    pen.lineWidth = height === 1 ? 1.4 : 0.6;
    polygon(brush, arc(from, to, height), false);
    pen.stroke();
  }
  if (!whole) {
    pen.lineWidth = 1.2;
    polygon(brush, [rim[0], [0, 0, 0], rim[64]], false);
    pen.stroke();
  }
  pen.globalAlpha = 1;
}

/** The progress of a path at a time: the last point passed, and the fraction of the next step. */
export function progress({ starts, times }, path, now) {
  const first = starts[path];
  const { low, share } = within(times.subarray(first, starts[path + 1]), now);
  return { last: first + low, share };
}

/** The visible paths from far to near, with their progress and their side of the limit plane. */
function projected({ view, cone }, now, look) {
  const { points, times, starts, unit } = cone;
  const normal = wall(view, cone.limit);
  const threads = [];
  cone.places ??= new Float32Array(2 * times.length);
  for (let path = 0; path + 1 < starts.length; path++) {
    const [seen, first, end] = [look(path), starts[path], starts[path + 1]];
    if (!seen || now < times[first]) continue;
    const { last, share } = progress(cone, path, now);
    let [depth, side] = [0, 0];
    for (let i = first; i < (seen.ahead ? end : last + 1); i++) {
      const [x, y, z] = [unit * points[3 * i], unit * points[3 * i + 1], unit * points[3 * i + 2]];
      const place = project(view, x, y, z);
      cone.places.set(place.slice(0, 2), 2 * i);
      if (i <= last) depth += place[2] / (last - first + 1);
    }
    for (let i = 3 * first; normal && i < 3 * end; i++) side += normal[i % 3] * points[i];
    const head = project(view, ...between(cone, last, share));
    threads.push({ path, first, last, end, head, depth, far: side < 0, ...seen });
  }
  return threads.sort((a, b) => a.depth - b.depth);
}

function between({ points, unit }, index, share) {
  return [0, 1, 2].map((k) => {
    const here = points[3 * index + k];
    return unit * (share > 0 ? here + share * (points[3 * index + 3 + k] - here) : here);
  });
}

function trace({ pen, cone }, from, to, head) {
  pen.beginPath();
  for (let i = from; i <= to; i++) pen.lineTo(cone.places[2 * i], cone.places[2 * i + 1]);
  if (head) pen.lineTo(head[0], head[1]);
}

function stroke(brush, { first, last, end, head, depth, colour, share = 1, ahead }) {
  const { pen, cone } = brush;
  const crowd = 9 / Math.sqrt(cone.starts.length - 1);
  const alpha = share * clamped(crowd, 0.38, 0.9);
  pen.strokeStyle = colour;
  if (ahead) {
    pen.globalAlpha = 0.4 * alpha;
    pen.lineWidth = 1;
    trace(brush, last, end - 1);
    pen.stroke();
  }
  pen.globalAlpha = alpha * clamped(0.85 + 0.35 * depth, 0.5, 1);
  pen.lineWidth = share * clamped(crowd, 0.7, 1.8);
  trace(brush, first, last, head);
  pen.stroke();
  pen.globalAlpha = 1;
}

/** Draws the grey start of a path, and its end, or its head while it moves. */
function tips({ pen, palette, cone, hidden }, { first, last, end, head, colour, marker, share = 1 }) {
  const size = share * clamped(30 / Math.sqrt(cone.starts.length - 1), 1.8, 4.5);
  if (!hidden.has("start")) {
    pen.fillStyle = palette.start;
    pen.beginPath();
    pen.arc(cone.places[2 * first], cone.places[2 * first + 1], 0.55 * size, 0, 7);
    pen.fill();
  }
  const arrived = last + 1 === end;
  mark(pen, arrived ? marker : "o", head[0], head[1], arrived ? size : 0.7 * size);
  pen.fillStyle = colour;
  pen.fill();
  pen.strokeStyle = palette.paper;
  pen.lineWidth = 0.12 * size;
  pen.stroke();
}

/** Draws the outline of a marker, named as in matplotlib. */
export function mark(pen, name, x, y, size) {
  const corners = {
    s: [[-0.85, -0.85], [0.85, -0.85], [0.85, 0.85], [-0.85, 0.85]],
    "^": [[-1, 0.8], [0, -1], [1, 0.8]],
    h: [[0, -1], [0.87, -0.5], [0.87, 0.5], [0, 1], [-0.87, 0.5], [-0.87, -0.5]],
    v: [[-1, -0.8], [0, 1], [1, -0.8]],
    D: [[-1.1, 0], [0, -1.1], [1.1, 0], [0, 1.1]],
    X: [[-1, -0.5], [-0.5, -1], [0, -0.5], [0.5, -1], [1, -0.5], [0.5, 0], [1, 0.5], [0.5, 1], [0, 0.5], [-0.5, 1], [-1, 0.5], [-0.5, 0]],
    ">": [[-0.8, -1], [1, 0], [-0.8, 1]],
    "<": [[0.8, -1], [-1, 0], [0.8, 1]],
    "*": [[0, -1.25], [0.29, -0.4], [1.19, -0.39], [0.48, 0.15], [0.73, 1.01], [0, 0.5], [-0.73, 1.01], [-0.48, 0.15], [-1.19, -0.39], [-0.29, -0.4]],
    P: [[-0.4, -1], [0.4, -1], [0.4, -0.4], [1, -0.4], [1, 0.4], [0.4, 0.4], [0.4, 1], [-0.4, 1], [-0.4, 0.4], [-1, 0.4], [-1, -0.4], [-0.4, -0.4]],
  }[name];
  pen.beginPath();
  if (!corners) pen.arc(x, y, size, 0, 2 * Math.PI);
  else for (const [right, down] of corners) pen.lineTo(x + size * right, y + size * down);
  pen.closePath();
}

function paintLimit(brush) {
  const { pen, palette, cone, hidden } = brush;
  if (!cone.limit || hidden.has("limits")) return;
  pen.strokeStyle = pen.fillStyle = palette.limit;
  polygon(brush, cone.limit, cone.limit.length > 2);
  pen.globalAlpha = 0.25;
  if (cone.limit.length > 2) pen.fill();
  pen.globalAlpha = 0.95;
  pen.lineWidth = cone.limit.length > 2 ? 1.4 : 3.2;
  pen.stroke();
  pen.globalAlpha = 1;
}

function axis(brush) {
  const { pen, palette, hidden } = brush;
  if (hidden.has("isotropic")) return;
  pen.strokeStyle = palette.ink;
  pen.lineWidth = 1.2;
  pen.setLineDash([6, 4]);
  polygon(brush, [[0, 0, 0], [0, 0, 1]], false);
  pen.stroke();
  pen.setLineDash([]);
}

function highlight(brush, thread) {
  if (!thread) return;
  const { pen, palette } = brush;
  for (const [colour, width] of [[palette.paper, 6], [thread.colour, 3]]) {
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    trace(brush, thread.first, thread.last, thread.head);
    pen.stroke();
  }
  tips(brush, thread);
}

/** Writes the coordinates at the rim, and the trace of each ring beside the right edge. */
function labels(brush, half) {
  const { pen, palette, cone, view, hidden } = brush;
  pen.font = `italic ${view.isSmall ? 14 : 17}px ${palette.font}`;
  pen.textAlign = "center";
  const taken = [["a − b", 1, 0], ["2c", 0, 1]].map(([words, x, y]) => {
    pen.strokeStyle = palette.soft;
    pen.lineWidth = 1;
    polygon(brush, [[x, y, 1], [1.06 * x, 1.06 * y, 1]], false);
    pen.stroke();
    return haloed(pen, palette, words, project(view, 1.16 * x, 1.16 * y, 1), palette.ink);
  });
  const top = project(view, 0, 0, 1);
  if (!hidden.has("isotropic")) haloed(pen, palette, "tr Σ", [top[0], top[1] - 14], palette.ink);
  pen.font = `${view.isSmall ? 11 : 13}px ${palette.font}`;
  pen.textAlign = "left";
  const side = view.azimuth + (half > 0 ? Math.max(half, 0.6) : Math.PI / 2);
  for (const ring of cone.rings) {
    const r = ring / cone.height;
    const [x, y] = project(view, r * Math.cos(side), r * Math.sin(side), r);
    const free = taken.every((place) => Math.abs(place[0] - x - 15) > 40 || Math.abs(place[1] - y) > 20);
    if (free) haloed(pen, palette, shown(ring), [x + 9, y], palette.soft);
  }
}
