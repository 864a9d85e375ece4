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

/** The layer of a model that moves the tokens at a time, in words; nothing where there is none. */
function layerWords(t) {
  const { depth } = flow.scene;
  const now = depth.filter(({ start }) => start <= t).pop() || depth[0];
  return now ? `layer ${now.number}` : "";
}

/** A time, and the layer it belongs to. */
const timeWords = (t) => [`t = ${shown(t)}`, layerWords(t)].filter(Boolean).join(", ");

const DEPTH = ["density", "tokens", "gaussian"]; // from below

/** The layers of the member that are to be seen, from below. */
const visible = () =>
  member()
    .layers.filter((layer) => !flow.hidden.has(nameOf(layer)))
    .sort((a, b) => DEPTH.indexOf(a.type) - DEPTH.indexOf(b.type));

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

/** Around the cells that hold more than a thousandth of the peak. */
function boxOfDensity(layer, frame) {
  const ends = spanOfCells(layer, frame).map(([first, last], k) => [layer.edges[k][first], layer.edges[k][last + 1]]);
  const corners = ends.length === 1 ? ends[0].map((x) => [x]) : ends[0].flatMap((x) => ends[1].map((y) => [x, y]));
  const places = corners.map((xi) => cellPlace(layer, { low: frame, next: frame, share: 0 }, xi));
  return boxAround(places.map((place) => ({ low: place, high: place })));
}

/** The first and the last cell along each axis that hold more than a thousandth of the peak. */
function spanOfCells(layer, frame) {
  const [columns, rows] = [layer.cells[0], layer.cells[1] || 1];
  const spans = [[columns - 1, 0], [rows - 1, 0]];
  const from = frame * columns * rows;
  for (let i = 0; i < columns * rows; i++) {
    if (layer.shares.data[from + i] < 66) continue;
    [Math.floor(i / rows), i % rows].forEach((cell, k) => (spans[k] = [Math.min(spans[k][0], cell), Math.max(spans[k][1], cell)]));
  }
  return spans.slice(0, layer.cells.length);
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
