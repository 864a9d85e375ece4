// Parts of a picture that the pointer can drag, and the start that results from dragging.

import { packed, unpacked } from "./gaussians.js";
import { ends, scales } from "./line.js";
import { identity, product } from "./matrix.js";
import { axesOf } from "./moments.js";
import { handles } from "./plane.js";

const REACH = 22; // largest distance in pixels from the pointer to the handle or token that it drags

/** The object at a place on the page: `{name}` for a handle, `{token}` for a token, or null. */
export function grasped(scene, view, px, py) {
  const near = candidates(scene, view).map((one) => ({ ...one, way: Math.hypot(one.place[0] - px, one.place[1] - py) }));
  const best = near.reduce((a, b) => (b.way < a.way ? b : a), { way: REACH });
  return best.way < REACH ? best : null;
}

function candidates({ cloud, now, state, time, history }, view) {
  if (cloud.measure === "gaussian" && cloud.d > 1) {
    return handles(now).map(({ name, point }) => ({ name, place: view.place(...point) }));
  }
  const { across, up } = scales({ history, box: view.box, view });
  const x = across.place(time);
  if (cloud.measure === "gaussian") return ends(now).map(({ name, value }) => ({ name, place: [x, up.place(value)] }));
  return Array.from(cloud.weights, (_, token) => {
    const [first, second] = [state[token * cloud.d], state[token * cloud.d + 1]];
    return { token, place: cloud.d > 1 ? view.place(first, second) : [x, up.place(first)] };
  }).filter(({ token }) => !(cloud.radius && cloud.d === 3 && state[3 * token + 2] < 0)); // not behind a sphere
}

/** The place of the pointer in the coordinates of states. */
export function pointed({ cloud, history }, view, px, py) {
  if (cloud.d > 1) return view.point(px, py);
  return [scales({ history, box: view.box, view }).up.value(py)];
}

/** The current state with the dragged part at another point. */
export function dragged({ cloud, state, now }, grip, point) {
  const { d } = cloud;
  if (cloud.measure === "gaussian") return ofGaussian(state, d, now, grip.name, point);
  const moved = Float64Array.from(state);
  point.forEach((x, k) => (moved[grip.token * d + k] = x));
  return moved;
}

function ofGaussian(state, d, now, name, point) {
  const { mean, factor } = unpacked(state, d);
  if (name === "mean") return packed(mean.map((x, k) => point[k] ?? x), factor);
  const arm = point.map((x, k) => x - mean[k]);
  if (d === 1) return packed(mean, [[Math.max(Math.abs(arm[0]), 1e-6)]]);
  return packed(mean, turned(factor, d, axesOf(now.covariance), arm, name));
}

/** The factor after a half axis was moved to `arm`; the other keeps its length, at a right angle. */
function turned(factor, d, [long, short], arm, name) {
  const size = Math.max(Math.hypot(...arm), 1e-9);
  const across = [-arm[1] / size, arm[0] / size];
  const [own, other] = name === "long" ? [long, short] : [short, long];
  const length = Math.hypot(...other);
  const target = across.map((x) => x * length);
  if (d === 2) return [[arm[0], target[0]], [arm[1], target[1]]];
  const [before, after] = [[own, other], [arm, target]];
  if (before.some((axis) => !(Math.hypot(...axis) > 0))) return factor;
  const map = identity(d);
  for (const k of [0, 1]) {
    for (const l of [0, 1]) {
      map[k][l] = before.reduce((sum, axis, a) => sum + (after[a][k] * axis[l]) / Math.hypot(...axis) ** 2, 0);
    }
  }
  return product(map, factor);
}
