// The picture, painted from back to front.

const canvas = document.getElementById("scene");
const pen = canvas.getContext("2d");
const state = { now: 1, hidden: new Set(), hovered: -1, places: new Float32Array(2 * scene.times.length) };
let palette = {};

/** Colours of the scheme in force; those of endings are made lighter on a dark page. */
function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  palette = { lift: dark ? 0.25 : 0, dark };
  for (const name of ["paper", "ink", "soft", "line", "glass", "edge", "start"]) {
    palette[name] = style.getPropertyValue(`--${name}`).trim();
  }
  palette.endings = data.endings.map(({ colour }) => lifted(colour));
  palette.limit = lifted(data.limitColour);
}

/** A colour mixed with white until it stands out from a dark page. */
function lifted(colour) {
  const parts = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  const share = palette.dark && Math.max(...parts) < 90 ? 0.8 : palette.lift;
  return `rgb(${parts.map((x) => Math.round(x + share * (255 - x))).join(" ")})`;
}

function paint() {
  const ratio = devicePixelRatio || 1;
  camera.width = canvas.clientWidth;
  camera.height = canvas.clientHeight;
  if (canvas.width !== Math.round(camera.width * ratio) || canvas.height !== Math.round(camera.height * ratio)) {
    canvas.width = Math.round(camera.width * ratio);
    canvas.height = Math.round(camera.height * ratio);
  }
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, camera.width, camera.height);
  pen.lineCap = pen.lineJoin = "round";
  const view = frame();
  const half = facing(view);
  surface(view, camera.azimuth + half, camera.azimuth + 2 * Math.PI - half, 0.45);
  const threads = projected(view);
  for (const thread of threads.filter(({ far }) => far)) stroke(thread);
  limit(view);
  axis(view);
  for (const thread of threads.filter(({ far }) => !far)) stroke(thread);
  for (const thread of threads) tips(thread);
  surface(view, camera.azimuth - half, camera.azimuth + half, 0.85);
  highlight(threads.find(({ path }) => path === state.hovered));
  labels(view, half);
}

function polygon(view, vertices, closed) {
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

/** The colour of the surface, denser where it is seen at a grazing angle: towards its edges. */
function glass(view, edges) {
  const apex = project(view, 0, 0, 0);
  const turns = edges.map((edge) => { // from straight up, clockwise
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

/** Part of the surface with its rings, and its share of the rim. */
function surface(view, from, to, strength) {
  if (to - from < 1e-3) return;
  const rim = arc(from, to, 1);
  const whole = to - from > 2 * Math.PI - 1e-3;
  pen.fillStyle = whole ? `rgb(${palette.glass} / 0.1)` : glass(view, [rim[0], rim[64]]);
  polygon(view, [[0, 0, 0], ...rim], true);
  pen.fill();
  pen.strokeStyle = palette.edge;
  pen.globalAlpha = strength;
  for (const height of [...data.rings.map((z) => z / data.height), 1]) {
    pen.lineWidth = height === 1 ? 1.4 : 0.6;
    polygon(view, arc(from, to, height), false);
    pen.stroke();
  }
  if (!whole) {
    pen.lineWidth = 1.2;
    polygon(view, [rim[0], [0, 0, 0], rim[64]], false);
    pen.stroke();
  }
  pen.globalAlpha = 1;
}

/** The visible paths from far to near: how far they are drawn, and on which side of the limit. */
function projected(view) {
  const normal = wall(view);
  const threads = [];
  for (const path of scene.paths) {
    const ending = data.runs[path][1];
    const first = scene.starts[path];
    if (state.hidden.has(data.endings[ending].name) || state.now < scene.times[first]) continue;
    const { last, share } = progress(path, state.now);
    let depth = 0;
    for (let i = first; i <= last; i++) {
      const place = project(view, scene.points[3 * i], scene.points[3 * i + 1], scene.points[3 * i + 2]);
      state.places.set(place.slice(0, 2), 2 * i);
      depth += place[2];
    }
    depth /= last - first + 1;
    const head = project(view, ...between(last, share));
    threads.push({ path, ending, first, last, head, depth, far: behind(normal, path) });
  }
  return threads.sort((a, b) => a.depth - b.depth);
}

function between(index, share) {
  return [0, 1, 2].map((k) => {
    const here = scene.points[3 * index + k];
    return share > 0 ? here + share * (scene.points[3 * index + 3 + k] - here) : here;
  });
}

/** Whether the middle of a path lies beyond the limit plane. */
function behind(normal, path) {
  if (!normal) return false;
  let sum = 0;
  for (let i = scene.starts[path]; i < scene.starts[path + 1]; i++) {
    for (let k = 0; k < 3; k++) sum += normal[k] * scene.points[3 * i + k];
  }
  return sum < 0;
}

function trace({ first, last, head }) {
  pen.beginPath();
  for (let i = first; i <= last; i++) pen.lineTo(state.places[2 * i], state.places[2 * i + 1]);
  pen.lineTo(head[0], head[1]);
}

function stroke(thread) {
  const crowd = Math.min(Math.max(9 / Math.sqrt(scene.paths.length), 0.38), 0.9);
  pen.globalAlpha = crowd * Math.min(Math.max(0.85 + 0.35 * thread.depth, 0.5), 1);
  pen.strokeStyle = palette.endings[thread.ending];
  pen.lineWidth = Math.min(Math.max(9 / Math.sqrt(scene.paths.length), 0.7), 1.8);
  trace(thread);
  pen.stroke();
  pen.globalAlpha = 1;
}

/** The grey start of a path, and its end, or its head while it moves. */
function tips({ path, ending, first, last, head }) {
  const size = Math.min(Math.max(30 / Math.sqrt(scene.paths.length), 1.8), 4.5);
  if (!state.hidden.has("start")) {
    pen.fillStyle = palette.start;
    pen.beginPath();
    pen.arc(state.places[2 * first], state.places[2 * first + 1], 0.55 * size, 0, 7);
    pen.fill();
  }
  const arrived = last + 1 === scene.starts[path + 1];
  marker(pen, arrived ? data.endings[ending].marker : "o", head[0], head[1], arrived ? size : 0.7 * size);
  pen.fillStyle = palette.endings[ending];
  pen.fill();
  pen.strokeStyle = palette.paper;
  pen.lineWidth = 0.12 * size;
  pen.stroke();
}

/** The outline of a mark, named as matplotlib names it. */
function marker(brush, name, x, y, size) {
  const corners = {
    s: [[-0.85, -0.85], [0.85, -0.85], [0.85, 0.85], [-0.85, 0.85]],
    "^": [[-1, 0.8], [0, -1], [1, 0.8]],
    v: [[-1, -0.8], [0, 1], [1, -0.8]],
    D: [[-1.1, 0], [0, -1.1], [1.1, 0], [0, 1.1]],
    X: [[-1, -0.5], [-0.5, -1], [0, -0.5], [0.5, -1], [1, -0.5], [0.5, 0], [1, 0.5], [0.5, 1], [0, 0.5], [-0.5, 1], [-1, 0.5], [-0.5, 0]],
    ">": [[-0.8, -1], [1, 0], [-0.8, 1]],
    "<": [[0.8, -1], [-1, 0], [0.8, 1]],
    "*": [[0, -1.25], [0.29, -0.4], [1.19, -0.39], [0.48, 0.15], [0.73, 1.01], [0, 0.5], [-0.73, 1.01], [-0.48, 0.15], [-1.19, -0.39], [-0.29, -0.4]],
    P: [[-0.4, -1], [0.4, -1], [0.4, -0.4], [1, -0.4], [1, 0.4], [0.4, 0.4], [0.4, 1], [-0.4, 1], [-0.4, 0.4], [-1, 0.4], [-1, -0.4], [-0.4, -0.4]],
  }[name];
  brush.beginPath();
  if (!corners) brush.arc(x, y, size, 0, 2 * Math.PI);
  else for (const [right, down] of corners) brush.lineTo(x + size * right, y + size * down);
  brush.closePath();
}

function limit(view) {
  if (!scene.limit || state.hidden.has("limits")) return;
  pen.strokeStyle = pen.fillStyle = palette.limit;
  polygon(view, scene.limit, scene.limit.length > 2);
  pen.globalAlpha = 0.25;
  if (scene.limit.length > 2) pen.fill();
  pen.globalAlpha = 0.95;
  pen.lineWidth = scene.limit.length > 2 ? 1.4 : 3.2;
  pen.stroke();
  pen.globalAlpha = 1;
}

function axis(view) {
  if (state.hidden.has("isotropic")) return;
  pen.strokeStyle = palette.ink;
  pen.lineWidth = 1.2;
  pen.setLineDash([6, 4]);
  polygon(view, [[0, 0, 0], [0, 0, 1]], false);
  pen.stroke();
  pen.setLineDash([]);
}

function highlight(thread) {
  if (!thread) return;
  for (const [colour, width] of [[palette.paper, 6], [palette.endings[thread.ending], 3]]) {
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    trace(thread);
    pen.stroke();
  }
  tips(thread);
}

/** Coordinates at the rim, and the trace of each ring beside the right edge. */
function labels(view, half) {
  const font = getComputedStyle(document.body).fontFamily;
  const small = camera.width < 480;
  pen.font = `italic ${small ? 14 : 17}px ${font}`;
  pen.textAlign = "center";
  const taken = [["a − b", 1, 0], ["2c", 0, 1]].map(([words, x, y]) => {
    pen.strokeStyle = palette.soft;
    pen.lineWidth = 1;
    polygon(view, [[x, y, 1], [1.06 * x, 1.06 * y, 1]], false);
    pen.stroke();
    return write(words, project(view, 1.16 * x, 1.16 * y, 1), palette.ink);
  });
  const top = project(view, 0, 0, 1);
  if (!state.hidden.has("isotropic")) write("tr Σ", [top[0], top[1] - 14], palette.ink);
  pen.font = `${small ? 11 : 13}px ${font}`;
  pen.textAlign = "left";
  const side = camera.azimuth + (half > 0 ? Math.max(half, 0.6) : Math.PI / 2);
  for (const ring of data.rings) {
    const r = ring / data.height;
    const [x, y] = project(view, r * Math.cos(side), r * Math.sin(side), r);
    const free = taken.every((place) => Math.abs(place[0] - x - 15) > 40 || Math.abs(place[1] - y) > 20);
    if (free) write(shown(ring), [x + 9, y], palette.soft);
  }
}

/** Words with a halo, so that they are read over lines; gives their place back. */
function write(words, place, colour) {
  pen.textBaseline = "middle";
  pen.strokeStyle = palette.paper;
  pen.lineWidth = 4;
  pen.globalAlpha = 0.75;
  pen.strokeText(words, place[0], place[1]);
  pen.globalAlpha = 1;
  pen.fillStyle = colour;
  pen.fillText(words, place[0], place[1]);
  return place;
}
