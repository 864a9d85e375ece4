// One dimension: time across, states up; bands of a Gaussian, paths of tokens.

import { BANDS, HUES, colourOf, dots, shades } from "./plane.js";
import { clipped, grid, handle, legend, write } from "./pen.js";
import { momentsOf } from "./moments.js";
import { shown } from "../../plotting/pages/scales.js";

const COLUMNS = 160; // number of times at which paths are drawn
const PATHS = 150; // largest number of tokens whose paths are drawn

/** The scales of a picture: time across, states up. */
export function scales({ history, box, view }) {
  const [low, high] = [history.from, history.horizon];
  const [left, wide] = [box.x + 46, box.width - 60];
  return {
    across: {
      name: "t", low, high, place: (t) => left + (wide * (t - low)) / (high - low),
    },
    up: {
      name: "x", low: view.centre[1] - view.half / view.zoom, high: view.centre[1] + view.half / view.zoom,
      place: (x) => box.y + (box.height / 2) * (1 - ((x - view.centre[1]) * view.zoom) / view.half),
      value: (y) => view.centre[1] + (1 - (2 * (y - box.y)) / box.height) * (view.half / view.zoom),
    },
  };
}

export function line(pen, palette, view, scene) {
  const { box } = view;
  const both = scales({ history: scene.history, box, view });
  clipped(pen, box, () => {
    const left = grid(pen, palette, box, both.across, both.up);
    const times = timesUpTo(scene);
    const states = times.map((t) => scene.history.at(t));
    if (scene.cloud.measure === "gaussian") bands(pen, palette, both, scene, times, states);
    else paths(pen, palette, both, scene, times, states);
    star(pen, palette, both, scene, box);
    legend(pen, palette, { box, left }, named(palette, scene));
  });
}

/** Legend entries of the shapes in a picture; the colours of tokens are explained above it. */
function named(palette, { cloud }) {
  const isGaussian = cloud.measure === "gaussian";
  return isGaussian ? [{ words: "mean", stroke: palette.focus }, ...shades(palette)] : [];
}

function timesUpTo({ history, time }) {
  const first = history.from;
  const count = Math.max(2, Math.ceil((COLUMNS * (time - first)) / Math.max(history.horizon - first, 1e-300)));
  return Array.from({ length: count }, (_, i) => first + ((time - first) * i) / (count - 1));
}

function bands(pen, palette, { across, up }, scene, times, states) {
  const moments = states.map((state) => momentsOf(scene.cloud, state));
  const edge = (k) => moments.map(({ mean, covariance }) => mean[0] + k * Math.sqrt(covariance[0][0]));
  for (const { times: k, alpha } of BANDS) {
    pen.beginPath();
    edge(k).forEach((x, i) => pen.lineTo(across.place(times[i]), up.place(x)));
    edge(-k).reverse().forEach((x, i) => pen.lineTo(across.place(times[times.length - 1 - i]), up.place(x)));
    pen.globalAlpha = alpha;
    pen.fillStyle = palette.focus;
    pen.fill();
  }
  pen.globalAlpha = 1;
  pen.strokeStyle = palette.focus;
  pen.lineWidth = 2;
  pen.beginPath();
  edge(0).forEach((x, i) => pen.lineTo(across.place(times[i]), up.place(x)));
  pen.stroke();
  for (const { name, value } of ends(scene.now)) {
    handle(pen, palette, [across.place(scene.time), up.place(value)], scene.held === name);
  }
}

/** The handles of a Gaussian on a line: its mean, and one standard deviation from it. */
export function ends({ mean, covariance }) {
  return [{ name: "mean", value: mean[0] }, { name: "long", value: mean[0] + Math.sqrt(covariance[0][0]) }];
}

function paths(pen, palette, { across, up }, scene, times, states) {
  const { cloud, state, hue, time, chosen } = scene;
  const stride = Math.max(1, Math.ceil(cloud.weights.length / PATHS));
  pen.lineWidth = 1.2;
  pen.globalAlpha = 0.5;
  for (let k = 0; k < HUES; k++) {
    const path = new Path2D();
    for (let i = 0; i < cloud.weights.length; i += stride) {
      if (hue[i] !== k) continue;
      path.moveTo(across.place(times[0]), up.place(states[0][i]));
      states.forEach((y, s) => path.lineTo(across.place(times[s]), up.place(y[i])));
    }
    pen.strokeStyle = colourOf(k, palette.dark);
    pen.stroke(path);
  }
  pen.globalAlpha = 1;
  const radius = Math.min(Math.max(30 / Math.sqrt(cloud.weights.length), 1.5), 4);
  dots(pen, palette, scene, radius, (i) => [across.place(time), up.place(state[i])]);
  if (chosen >= 0) handle(pen, palette, [across.place(time), up.place(state[chosen])], true);
}

/** Draws the time of the blow-up as a line that no state passes. */
function star(pen, palette, { across }, { history }, box) {
  if (!history.end?.tStar) return;
  const x = Math.min(across.place(history.end.tStar.time), box.x + box.width - 8);
  pen.setLineDash([6, 4]);
  pen.strokeStyle = palette.alarm;
  pen.lineWidth = 1.6;
  pen.beginPath();
  pen.moveTo(x, box.y);
  pen.lineTo(x, box.y + box.height);
  pen.stroke();
  pen.setLineDash([]);
  write(pen, palette, `t* = ${shown(history.end.tStar.time, 6)}`, x - 8, box.y + 34, { align: "right", colour: palette.alarm });
}
