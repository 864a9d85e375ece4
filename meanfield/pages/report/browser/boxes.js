// The boxes that contain a flow, in each frame and in all frames together.

/** The box that contains a layer in one of its frames. */
function boxOf(layer, frame) {
  if (layer.type === "density") return boxOfDensity(layer, frame);
  const width = layer.mean.shape[1];
  const mean = between(layer.mean, width, { low: frame, next: frame, share: 0 });
  const deviations = mean.map((_, k) => Math.sqrt(Math.max(layer.covariance.data[(frame * width + k) * width + k], 0)));
  const around = (times) => ({ low: mean.map((m, k) => m - times * deviations[k]), high: mean.map((m, k) => m + times * deviations[k]) });
  if (layer.type === "gaussian") return around(2.5);
  const { low, step } = layer.positions;
  const from = mean.map((_, k) => low.data[frame * width + k]);
  const tokens = { low: from, high: from.map((x, k) => x + 65535 * step.data[frame * width + k]) };
  return width === 1 || !layer.outlined ? tokens : boxAround([tokens, around(2)]);
}

/** The box around the cells with more than a thousandth of the peak. */
function boxOfDensity(layer, frame) {
  const ends = spanOfCells(layer, frame).map(([first, last], k) => [layer.edges[k][first], layer.edges[k][last + 1]]);
  const corners = ends.length === 1 ? ends[0].map((x) => [x]) : ends[0].flatMap((x) => ends[1].map((y) => [x, y]));
  const places = corners.map((xi) => cellPlace(layer, { low: frame, next: frame, share: 0 }, xi));
  return boxAround(places.map((place) => ({ low: place, high: place })));
}

/** The first and the last cell along each axis with more than a thousandth of the peak. */
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

/** The point in space that corresponds to coordinates of the cells. */
function cellPlace(layer, moment, xi) {
  const width = layer.cells.length;
  const origin = between(layer.origin, width, moment);
  const axes = between(layer.axes, width * width, moment);
  return origin.map((x, i) => x + xi.reduce((sum, z, j) => sum + axes[i * width + j] * z, 0));
}

/** The largest distance of a layer in space from a point in one frame, for its tokens and its ellipse from any side. */
function reachOf(layer, frame, centre) {
  const width = centre.length;
  const moment = { low: frame, next: frame, share: 0 };
  const mean = between(layer.mean, width, moment);
  const squares = between(layer.covariance, width * width, moment).map((x) => x * x);
  const largest = Math.sqrt(squares.reduce((a, b) => a + b)); // bounds every eigenvalue
  const ellipse = distance(mean, centre) + 2 * Math.sqrt(largest);
  if (layer.type === "gaussian") return ellipse;
  const count = layer.positions.steps.shape[2];
  const x = positionsAt(layer, moment, new Float64Array(width * count));
  let most = 0;
  for (let i = 0; i < count; i++) most = Math.max(most, (x[i] - centre[0]) ** 2 + (x[count + i] - centre[1]) ** 2 + (x[2 * count + i] - centre[2]) ** 2);
  return Math.max(layer.outlined ? ellipse : 0, Math.sqrt(most));
}

const distance = (a, b) => Math.hypot(...a.map((x, k) => x - b[k]));

/** The box of all layers of the member at a time: centre, half-widths and, in space, the largest distance from the centre. */
function partAt(t) {
  const layers = member().layers.map((layer) => [layer, within(layer.times.data, t).low]);
  const part = framed(boxAround(layers.map(([layer, frame]) => boxOf(layer, frame))));
  if (part.centre.length < 3) return { ...part, reach: 0 };
  return { ...part, reach: Math.max(...layers.map(([layer, frame]) => reachOf(layer, frame, part.centre))) };
}

/** The box of a whole flow, from the boxes of its frames. */
function wholeOf(parts) {
  const ends = (part, sign) => part.centre.map((x, k) => x + sign * part.half[k]);
  const whole = framed(boxAround(parts.map((part) => ({ low: ends(part, -1), high: ends(part, 1) }))));
  const ball = Math.max(...parts.map((part) => distance(part.centre, whole.centre) + part.reach));
  return { ...whole, reach: Math.min(ball, Math.hypot(...whole.half)) };
}

/** Measures the current member; returns whether a fixed camera would show it too small. */
function measureFlow() {
  flow.parts = Array.from(flow.scene.times.data, partAt);
  flow.whole = wholeOf(flow.parts);
  const sizes = flow.parts.map(({ half }) => Math.max(...half));
  const sorted = [...sizes].sort((a, b) => a - b);
  const [first, last] = [sizes[0], sizes[sizes.length - 1]];
  const explodes = sorted[sorted.length - 1] > 30 * sorted[sorted.length >> 1];
  return explodes || first > 30 * last || first < Math.max(...flow.whole.half) / 5;
}

/** The box that the camera shows: that of the whole flow, or of the current time. */
function partNow() {
  if (!camera.follows) return flow.whole;
  const low = Math.min(Math.floor(flow.place), frames() - 1);
  const [a, b] = [flow.parts[low], flow.parts[Math.min(low + 1, frames() - 1)]];
  const share = flow.place - low;
  const wide = (x, y) => Math.sqrt((1 - share) * x * x + share * y * y); // interpolated as for ellipses between frames
  return {
    centre: a.centre.map((x, k) => (1 - share) * x + share * b.centre[k]),
    half: a.half.map((x, k) => wide(x, b.half[k])),
    reach: wide(a.reach, b.reach),
  };
}
