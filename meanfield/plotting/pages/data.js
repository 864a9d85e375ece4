// The dataset as typed arrays. Lengths are in units of the height of the picture.

const data = JSON.parse(document.getElementById("data").textContent);
const scene = unpacked(data);

/** Points (x, y, z) and times in [0, 1], and where each path begins among them. */
function unpacked(source) {
  const bytes = Uint8Array.from(atob(source.rows), (letter) => letter.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const count = bytes.length / 8;
  const points = new Float32Array(3 * count);
  const times = new Float32Array(count);
  for (let i = 0; i < count; i++) {
    for (let k = 0; k < 3; k++) points[3 * i + k] = view.getInt16(8 * i + 2 * k, true) / source.steps;
    times[i] = view.getInt16(8 * i + 6, true) / source.steps;
  }
  const starts = [0];
  for (const length of source.lengths) starts.push(starts[starts.length - 1] + length);
  const limit = source.limit && source.limit.map((vertex) => vertex.map((x) => x / source.height));
  return { points, times, starts, limit, paths: source.lengths.map((_, index) => index) };
}

/** How far paths are at time `now`: the last point passed, and the share of the next step. */
function progress(path, now) {
  const [first, end] = [scene.starts[path], scene.starts[path + 1]];
  let low = first;
  let high = end;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (scene.times[middle] <= now) low = middle;
    else high = middle;
  }
  if (low + 1 >= end) return { last: low, share: 0 };
  const step = scene.times[low + 1] - scene.times[low];
  return { last: low, share: Math.min(Math.max((now - scene.times[low]) / step, 0), 1) };
}

/** A number for people. */
function shown(value) {
  if (value === null) return "–";
  if (value !== 0 && (Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3)) return value.toExponential(3).replace("-", "−");
  return String(Number(value.toPrecision(4))).replace("-", "−");
}
