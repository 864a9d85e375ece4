// What is played: a scene, one of its members, and a time.

const flow = { scene: null, member: 0, place: 0, boxes: null, hidden: new Set() };

const member = () => flow.scene.members[flow.member];
const frames = () => flow.scene.times.data.length;

/** The time at a place among the frames, which need not be a whole number. */
function timeAt(place) {
  const times = flow.scene.times.data;
  const low = Math.min(Math.floor(place), times.length - 1);
  const next = Math.min(low + 1, times.length - 1);
  return times[low] + (place - low) * (times[next] - times[low]);
}

/** The place among the frames at a time. */
function placeOf(t) {
  const { low, share } = within(flow.scene.times.data, t);
  return low + share;
}

/** The layers of the member that are to be seen. */
const visible = () => member().layers.filter((layer) => !flow.hidden.has(nameOf(layer)));
const nameOf = (layer) => layer.name || layer.type;

/** The part of space that a layer takes at one of its frames. */
function boxOf(layer, frame) {
  if (layer.type === "density") return boxOfDensity(layer, frame);
  const width = layer.mean.shape[1];
  const mean = between(layer.mean, width, { low: frame, next: frame, share: 0 });
  const spread = mean.map((_, k) => 2.5 * Math.sqrt(Math.max(layer.covariance.data[(frame * width + k) * width + k], 0)));
  if (layer.type === "gaussian") return { low: mean.map((m, k) => m - spread[k]), high: mean.map((m, k) => m + spread[k]) };
  const { low, step } = layer.positions;
  const from = mean.map((_, k) => low.data[frame * width + k]);
  return { low: from, high: from.map((x, k) => x + 65535 * step.data[frame * width + k]) };
}

/** The part of a box of cells that holds all but faint densities: corners of the whole. */
function boxOfDensity(layer, frame) {
  const width = layer.cells.length;
  const ends = layer.edges.map((edges) => [edges[0], edges[edges.length - 1]]);
  const corners = width === 1 ? ends[0].map((x) => [x]) : ends[0].flatMap((x) => ends[1].map((y) => [x, y]));
  const places = corners.map((xi) => cellPlace(layer, { low: frame, next: frame, share: 0 }, xi));
  return { low: places[0].map((_, k) => Math.min(...places.map((p) => p[k]))), high: places[0].map((_, k) => Math.max(...places.map((p) => p[k]))) };
}

/** The point of the space at coordinates of the cells. */
function cellPlace(layer, moment, xi) {
  const width = layer.cells.length;
  const origin = between(layer.origin, width, moment);
  const axes = between(layer.axes, width * width, moment);
  return origin.map((x, i) => x + xi.reduce((sum, z, j) => sum + axes[i * width + j] * z, 0));
}

/** The boxes of all frames of the clock, for the member in force. */
function measureBoxes() {
  const times = flow.scene.times.data;
  flow.boxes = Array.from(times, (t) => boxAround(member().layers.map((layer) => boxOf(layer, within(layer.times.data, t).low))));
  const sizes = flow.boxes.map((box) => Math.max(...box.high.map((x, k) => x - box.low[k])));
  const sorted = [...sizes].sort((a, b) => a - b);
  return sorted[sorted.length - 1] > 30 * sorted[sorted.length >> 1] || sizes[0] > 30 * sizes[sizes.length - 1];
}

/** What the camera looks at now: the whole flow, or the present. */
function boxNow() {
  if (!camera.follows) return framed(boxAround(flow.boxes));
  const low = Math.min(Math.floor(flow.place), frames() - 1);
  const next = Math.min(low + 1, frames() - 1);
  const share = flow.place - low;
  const mixed = (a, b) => a.map((x, k) => (1 - share) * x + share * b[k]);
  return framed({ low: mixed(flow.boxes[low].low, flow.boxes[next].low), high: mixed(flow.boxes[low].high, flow.boxes[next].high) });
}
