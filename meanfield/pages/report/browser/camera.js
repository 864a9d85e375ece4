// Projection from space to the stage, by a camera at infinity that turns in 3D and slides in 2D.

const HOME = { azimuth: -0.9, elevation: 0.45, zoom: 1, slide: [0, 0] };
const camera = { ...HOME, follows: false };

/** The directions to the right, upwards and towards the eye. */
function directions(dimension) {
  if (dimension < 3) return [[1, 0], [0, 1], [0, 0]];
  const [ca, sa] = [Math.cos(camera.azimuth), Math.sin(camera.azimuth)];
  const [ce, se] = [Math.cos(camera.elevation), Math.sin(camera.elevation)];
  return [[-sa, ca, 0], [-se * ca, -se * sa, ce], [ce * ca, ce * sa, se]];
}

const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

/** The current view, which maps points in space to a stage of this size. */
function viewOf(box, dimension, width, height) {
  const [right, up, towards] = directions(dimension);
  const half = dimension < 3 ? box.half : [box.reach, box.reach]; // in 3D, seen from any side
  const margin = dimension === 2 ? 44 : 12;
  const room = [Math.max(width - 2 * margin, 40), Math.max(height - 2 * margin, 40)];
  const scale = camera.zoom * Math.min(room[0] / (2 * half[0] || 1), room[1] / (2 * half[1] || 1)) || 1;
  const x = width / 2 + camera.slide[0] - scale * dot(right, box.centre);
  const y = height / 2 + camera.slide[1] + scale * dot(up, box.centre);
  const place = (point) => [x + scale * dot(right, point), y - scale * dot(up, point)];
  return { right, up, towards, scale, x, y, width, height, place };
}

/** The smallest box that contains several boxes: `{ low, high }` for each coordinate. */
function boxAround(boxes) {
  const width = boxes[0].low.length;
  const range = Array.from({ length: width }, (_, k) => k);
  const low = range.map((k) => Math.min(...boxes.map((box) => box.low[k])));
  const high = range.map((k) => Math.max(...boxes.map((box) => box.high[k])));
  return { low, high };
}

function framed({ low, high }) {
  const half = low.map((x, k) => (high[k] - x) / 2);
  const largest = Math.max(...half) || 1;
  return { centre: low.map((x, k) => (x + high[k]) / 2), half: half.map((x) => Math.max(x, largest / 50)) };
}
