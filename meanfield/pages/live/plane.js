// Tokens and ellipses in the plane of the first two coordinates.

import { clipped, disc, grid, handle, legend, write } from "./pen.js";
import { axesOf } from "./moments.js";
import { meanOf } from "./sums.js";
import { shown } from "../../plotting/pages/scales.js";

export const HUES = 8; // number of colours of tokens, by the direction of their start
const TRAIL = 0.1; // length of trails, as a share of the time span
const FAR = 50; // distance of the view from the origin, in half-widths, from which ticks are relative to the mean
const MOST = 60_000; // largest number of segments of trails in one picture
const DEVIATIONS = 2; // size of ellipses around tokens and starts, in standard deviations
const START = [5, 4]; // dash pattern of the ellipse of the start
export const BANDS = [{ times: 2, alpha: 0.12 }, { times: 1, alpha: 0.24 }]; // ellipses of a Gaussian: standard deviations and opacity

/** The colour of each token: by its order if causal, by its rank on a line, otherwise by its direction. */
export function hues({ measure, d, weights, causal, first }, mean) {
  if (measure === "gaussian") return null;
  const order = Uint32Array.from(weights, (_, i) => i);
  if (!causal && d === 1) order.sort((i, j) => first[i] - first[j]);
  const shares = new Float64Array(weights.length);
  order.forEach((i, rank) => (shares[i] = rank / weights.length));
  const turn = (i) => Math.atan2(first[i * d + 1] - mean[1], first[i * d] - mean[0]) / (2 * Math.PI) + 0.5;
  const hue = (i) => (causal || d === 1 ? shares[i] : turn(i));
  return Uint8Array.from(weights, (_, i) => Math.min(HUES - 1, Math.floor(HUES * hue(i))));
}

export const colourOf = (hue, dark) => `hsl(${Math.round((360 * hue) / HUES + 20)} 62% ${dark ? 62 : 44}%)`;

/** The area of each dot relative to that of a mean weight: proportional to the weight, within limits. */
export const areas = (weights) => Float64Array.from(weights, (w) => Math.min(Math.max(w * weights.length, 0.15), 8));

/** The radius of dots of a mean weight: small if there are many. */
export const radiusOf = ({ weights }) => Math.min(Math.max(40 / Math.sqrt(weights.length), 1.6), 4.5);

/** Draws tokens as dots, with this radius for a mean weight; heavy ones lie below light ones. */
export function dots(pen, palette, { cloud, hue }, radius, place, isShown = () => true) {
  const paths = Array.from({ length: 2 * HUES }, () => new Path2D());
  areas(cloud.weights).forEach((area, i) => {
    if (isShown(i)) disc(paths[hue[i] + (area > 2 ? 0 : HUES)], ...place(i), radius * Math.sqrt(area));
  });
  paths.forEach((path, k) => {
    pen.fillStyle = colourOf(k % HUES, palette.dark);
    pen.fill(path);
  });
}

export function plane(pen, palette, view, scene) {
  const { box } = view;
  clipped(pen, box, () => {
    const [[left, top], [right, low]] = [view.point(box.x, box.y), view.point(box.x + box.width, box.y + box.height)];
    // Far from the origin all ticks would look the same, so they show the distance from the mean.
    const [x0, y0] = Math.hypot(...view.centre) > FAR * view.half ? view.centre : [0, 0];
    const inner = grid(
      pen, palette, box,
      { name: "x₁", low: left - x0, high: right - x0, place: (x) => view.place(x + x0, 0)[0] },
      { name: "x₂", low: low - y0, high: top - y0, place: (y) => view.place(0, y + y0)[1] },
    );
    ellipse(pen, view, scene.begun, { times: DEVIATIONS, stroke: palette.soft, width: 1.2, dash: START });
    if (scene.cloud.measure === "gaussian") gaussian(pen, palette, view, scene);
    else tokens(pen, palette, view, scene);
    const below = legend(pen, palette, { box, left: inner }, named(palette, scene));
    if (x0 || y0) write(pen, palette, `around the mean (${shown(x0, 3)}, ${shown(y0, 3)})`, inner, below);
  });
}

/** Legend entries of the ellipses in a picture. */
function named(palette, { cloud }) {
  const start = { words: `${DEVIATIONS}σ at start`, stroke: palette.soft, dash: START };
  if (cloud.measure === "gaussian") return [...shades(palette), start];
  return [{ words: `${DEVIATIONS}σ of the tokens`, stroke: palette.ink }, start];
}

/** Legend entries of the shades of a Gaussian; the inner one lies over the outer one. */
export function shades(palette) {
  const alphas = [1 - (1 - BANDS[0].alpha) * (1 - BANDS[1].alpha), BANDS[0].alpha];
  return alphas.map((alpha, k) => ({ words: `${k + 1}σ`, fill: { colour: palette.focus, alpha } }));
}

/** Draws the ellipse of one or several standard deviations. */
function ellipse(pen, view, { mean, covariance }, { times = 1, fill, stroke, width = 2, dash = [] }) {
  const [long, short] = axesOf(covariance);
  const [x, y] = view.place(mean[0], mean[1]);
  const size = (axis) => times * view.scale * Math.hypot(...axis);
  pen.beginPath();
  pen.ellipse(x, y, size(long), size(short), -Math.atan2(long[1], long[0]), 0, 2 * Math.PI);
  pen.setLineDash(dash);
  pen.lineWidth = width;
  if (fill) {
    pen.fillStyle = fill;
    pen.fill();
  }
  if (stroke) {
    pen.strokeStyle = stroke;
    pen.stroke();
  }
  pen.setLineDash([]);
}

function gaussian(pen, palette, view, scene) {
  for (const { times, alpha } of BANDS) {
    pen.globalAlpha = alpha;
    ellipse(pen, view, scene.now, { times, fill: palette.focus });
  }
  pen.globalAlpha = 1;
  ellipse(pen, view, scene.now, { stroke: palette.focus });
  for (const { name, point } of handles(scene.now)) handle(pen, palette, view.place(...point), scene.held === name);
}

/** The handles of a Gaussian: its mean, and the ends of its half axes. */
export function handles({ mean, covariance }) {
  const end = (axis) => [mean[0] + axis[0], mean[1] + axis[1]];
  const [long, short] = axesOf(covariance);
  return [{ name: "long", point: end(long) }, { name: "short", point: end(short) }, { name: "mean", point: mean.slice(0, 2) }];
}

function tokens(pen, palette, view, scene) {
  const { cloud, state } = scene;
  trails(pen, palette, view, scene);
  dots(pen, palette, scene, radiusOf(cloud), (i) => view.place(state[i * cloud.d], state[i * cloud.d + 1]));
  ellipse(pen, view, scene.now, { times: DEVIATIONS, stroke: palette.ink, width: 1.3 });
  if (scene.chosen >= 0) chosen(pen, palette, view, scene);
}

export function chosen(pen, palette, view, { cloud, state, chosen: i }) {
  const place = view.place(state[i * cloud.d], state[i * cloud.d + 1]);
  handle(pen, palette, place, true);
  write(pen, palette, `token ${i}`, place[0] + 14, place[1], { colour: palette.ink });
}

/** Draws trails, one path for each colour: the recent positions of tokens, relative to their mean unless on a sphere. */
export function trails(pen, palette, view, { history, cloud, time, hue, now, sampler }) {
  const n = cloud.weights.length;
  const pieces = Math.min(24, Math.floor(MOST / n));
  const since = Math.max(history.from, time - TRAIL * (history.horizon - cloud.t0));
  if (!(time > since) || pieces < 2) return;
  const paths = Array.from({ length: HUES }, () => new Path2D());
  const states = sampler(pieces + 1, since, time).map((state) => {
    const mean = meanOf(state, cloud.weights, cloud.d);
    return { state, way: cloud.radius ? [0, 0] : [now.mean[0] - mean[0], now.mean[1] - mean[1]] };
  });
  for (let i = 0; i < n; i++) {
    const path = paths[hue[i]];
    states.forEach(({ state, way }, s) => {
      const place = view.place(state[i * cloud.d] + way[0], state[i * cloud.d + 1] + way[1]);
      if (s) path.lineTo(...place);
      else path.moveTo(...place);
    });
  }
  pen.globalAlpha = n > 150 ? 0.35 : 0.5;
  pen.lineWidth = n > 150 ? 1 : 1.5;
  paths.forEach((path, k) => {
    pen.strokeStyle = colourOf(k, palette.dark);
    pen.stroke(path);
  });
  pen.globalAlpha = 1;
}
