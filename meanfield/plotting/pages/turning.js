// The page of the cone, and its controls: turn, zoom, point, hide, play.

import { ConeCamera, mark, paintCone, progress, unpackedCone } from "./cone.js";
import { contrasted, css, parsed, readPalette } from "./palette.js";
import { shown } from "./scales.js";

const data = JSON.parse(document.getElementById("data").textContent);
const cone = unpackedCone(data);
const canvas = document.getElementById("scene");
const pen = canvas.getContext("2d");
const camera = new ConeCamera();
const state = { now: 1, hidden: new Set(), hovered: -1 };
let palette = {};
const tip = document.getElementById("tip");
const slider = document.getElementById("time");
const playButton = document.getElementById("play");
const still = matchMedia("(prefers-reduced-motion: reduce)");
const motion = { turning: !still.matches, playing: false, before: 0, asked: false };
const PLAYING_TIME = 7000; // duration from the first frame to the last, in milliseconds
const fingers = new Map();

function redraw() {
  if (motion.asked) return;
  motion.asked = true;
  requestAnimationFrame(step);
}

function step(clock) {
  motion.asked = false;
  const passed = Math.min(clock - motion.before, 100);
  motion.before = clock;
  if (motion.turning) camera.turn(-passed * 0.00012, 0);
  if (motion.playing) goTo(state.now + passed / PLAYING_TIME);
  paint();
  if (motion.turning || motion.playing) redraw();
}

function paint() {
  const ratio = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
  camera.box = { x: 0, y: 0, width, height };
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  paintCone(pen, palette, camera, cone, { ...state, look: lookOf });
}

/** The look of a run's path, by the run's ending. */
function lookOf(path) {
  const { name, marker } = data.endings[data.runs[path][1]];
  return state.hidden.has(name) ? null : { marker, colour: palette.endings[data.runs[path][1]] };
}

function goTo(now) {
  state.now = Math.min(now, 1);
  slider.value = Math.round(1000 * state.now);
  const [first, last] = data.times || [0, 1];
  const time = first + state.now * (last - first);
  document.getElementById("clock").textContent = `t = ${shown(time)}`;
  slider.setAttribute("aria-valuetext", `t = ${shown(time)}`);
  if (state.now >= 1) play(false);
}

function play(playing) {
  motion.playing = playing;
  playButton.textContent = playing ? "❚❚" : "▶\uFE0E";
  playButton.setAttribute("aria-label", playing ? "Pause" : "Play");
}

function togglePlay() {
  if (!data.times) return;
  const playing = !motion.playing;
  if (playing && state.now >= 1) goTo(0);
  play(playing);
  redraw();
}

function touched() {
  motion.turning = false;
  redraw();
}

canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  fingers.set(event.pointerId, event);
  canvas.classList.add("held");
  touched();
});

canvas.addEventListener("pointermove", (event) => {
  const old = fingers.get(event.pointerId);
  if (!old) return point(event);
  if (fingers.size === 1) camera.turn((event.clientX - old.clientX) * 0.008, (event.clientY - old.clientY) * 0.008);
  const gap = spread();
  fingers.set(event.pointerId, event);
  if (fingers.size === 2 && gap > 0) camera.zoomBy(spread() / gap);
  point(null);
});

for (const name of ["pointerup", "pointercancel"]) {
  canvas.addEventListener(name, (event) => {
    fingers.delete(event.pointerId);
    if (fingers.size === 0) canvas.classList.remove("held");
    if (name === "pointerup") point(event);
  });
}
canvas.addEventListener("pointerleave", (event) => {
  if (event.pointerType === "mouse") point(null); // touch pointers leave as soon as they are lifted
});

/** The distance between two fingers. */
function spread() {
  const [a, b] = [...fingers.values()];
  return b ? Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY) : 0;
}

canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  camera.zoomBy(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.04 : 0.0015)));
  touched();
}, { passive: false });

const KEYS = {
  ArrowLeft: () => camera.turn(-0.08, 0), ArrowRight: () => camera.turn(0.08, 0),
  ArrowUp: () => camera.turn(0, -0.06), ArrowDown: () => camera.turn(0, 0.06),
  "+": () => camera.zoomBy(1.15), "=": () => camera.zoomBy(1.15), "-": () => camera.zoomBy(1 / 1.15),
  0: () => camera.home(), " ": togglePlay,
};
canvas.addEventListener("keydown", (event) => {
  if (!KEYS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  KEYS[event.key]();
  touched();
});

/** Shows the run whose path is nearest to the pointer, if one is near. */
function point(event) {
  const box = canvas.getBoundingClientRect();
  const found = event ? nearest(event.clientX - box.left, event.clientY - box.top) : -1;
  if (found !== state.hovered) {
    state.hovered = found;
    redraw();
  }
  tip.hidden = found < 0;
  if (found < 0) return;
  tip.textContent = told(found);
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const left = x + 16 + tip.offsetWidth > box.width ? x - 16 - tip.offsetWidth : x + 16;
  tip.style.left = `${Math.max(left, 4)}px`;
  tip.style.top = `${Math.min(Math.max(y - 20, 4), box.height - tip.offsetHeight - 4)}px`;
}

/** Text about a run: its number, start and ending. */
function told(path) {
  const [run, ending, a, c, b, star, error, stop] = data.runs[path];
  const start = `run ${run}\nstart: a = ${shown(a)}, c = ${shown(c)}, b = ${shown(b)}\n`;
  const when = stop === null || star !== null ? "" : ` at t = ${shown(stop)}`;
  const bar = error === null ? "" : ` ± ${Number(error.toPrecision(2))}`;
  return start + data.endings[ending].name + (star === null ? when : `, t* = ${shown(star)}${bar}`);
}

function nearest(x, y) {
  let best = -1;
  let least = 10 ** 2;
  data.runs.forEach((_, path) => {
    if (!lookOf(path) || state.now < cone.times[cone.starts[path]]) return;
    const { last } = progress(cone, path, state.now);
    for (let i = cone.starts[path]; i <= last; i++) {
      const gap = gapTo(x, y, 2 * i, 2 * Math.min(i + 1, last));
      if (gap < least) [least, best] = [gap, path];
    }
  });
  return best;
}

/** The squared distance from a place to the segment between two points. */
function gapTo(x, y, from, to) {
  const { places } = cone;
  const [dx, dy] = [places[to] - places[from], places[to + 1] - places[from + 1]];
  const [px, py] = [x - places[from], y - places[from + 1]];
  const length = dx * dx + dy * dy;
  const share = length > 0 ? Math.min(Math.max((px * dx + py * dy) / length, 0), 1) : 0;
  return (px - share * dx) ** 2 + (py - share * dy) ** 2;
}

/** A button that shows or hides the part called `name`, with a sample of its look. */
function entry(name, count, sample) {
  const button = document.createElement("button");
  button.type = "button";
  button.setAttribute("aria-pressed", "true");
  const swatch = document.createElement("canvas");
  swatch.width = 68;
  swatch.height = 32;
  swatch.setAttribute("aria-hidden", "true");
  const words = document.createElement("span");
  words.textContent = name;
  const number = document.createElement("span");
  number.textContent = count;
  button.append(swatch, words, number);
  button.addEventListener("click", () => {
    const hide = !state.hidden.has(name);
    if (hide) state.hidden.add(name);
    else state.hidden.delete(name);
    button.setAttribute("aria-pressed", String(!hide));
    redraw();
  });
  document.getElementById("legend").append(button);
  return () => sample(swatch.getContext("2d"));
}

function line(brush, colour, width, dash) {
  brush.clearRect(0, 0, 68, 32);
  brush.strokeStyle = brush.fillStyle = colour;
  brush.lineWidth = width;
  brush.setLineDash(dash);
  brush.beginPath();
  brush.moveTo(4, 16);
  brush.lineTo(64, 16);
  if (width > 0) brush.stroke();
}

function dot(brush, name, size) {
  mark(brush, name, 34, 16, size);
  brush.fill();
}

const samples = data.endings.map((ending, index) => entry(ending.name, ending.count, (brush) => {
  line(brush, palette.endings[index], 4, []);
  dot(brush, ending.marker, 10);
}));
samples.push(entry("start", "", (brush) => {
  line(brush, palette.start, 0, []);
  dot(brush, "o", 6);
}));
samples.push(entry("isotropic", "", (brush) => line(brush, palette.ink, 2.5, [12, 8])));
if (cone.limit) samples.push(entry("limits", "", (brush) => line(brush, palette.limit, cone.limit.length > 2 ? 18 : 7, [])));

playButton.addEventListener("click", togglePlay);
slider.addEventListener("input", () => {
  play(false);
  goTo(slider.value / 1000);
  redraw();
});
document.getElementById("reset").addEventListener("click", () => {
  camera.home();
  touched();
});

function recolour() {
  palette = readPalette();
  const stands = (colour) => css(contrasted(parsed(colour), palette.dark));
  palette.endings = data.endings.map(({ colour }) => stands(colour));
  palette.limit = stands(data.limitColour);
  for (const draw of samples) draw();
  redraw();
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
still.addEventListener("change", touched);
new ResizeObserver(redraw).observe(canvas);

const tally = data.endings.map(({ name, count }) => `${count} ${name}`).join(", ");
const cut = data.tallest > data.height ? ` Cut at trace ${shown(data.height)}; traces go on to ${shown(data.tallest)}.` : "";
document.getElementById("summary").textContent =
  `${data.runs.length} ${data.runs.length === 1 ? "run" : "runs"}: ${tally}.${cut}`;
document.getElementById("player").hidden = !data.times;
goTo(1);
recolour();
