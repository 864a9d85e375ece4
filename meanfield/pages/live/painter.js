// The thread that draws: it plays what was integrated so far, at sixty frames per second.

import { globe } from "./globe.js";
import { dragged, grasped, pointed } from "./grip.js";
import { History } from "./history.js";
import { line } from "./line.js";
import { momentsOf, spread } from "./moments.js";
import { Path, coneOf, followed } from "./path.js";
import { clipped } from "./pen.js";
import { hues, plane } from "./plane.js";
import { draggedOnSphere, sceneFrom } from "./sphere.js";
import { View } from "./view.js";
import { ConeCamera, paintCone } from "../../plotting/pages/cone.js";

const PLAYING = 9; // seconds from the start of a flow to its end, at speed 1
const PATIENCE = 250; // milliseconds for which an older history is shown while a new one begins
// Messages about a pointer that drags something drawn.
const HANDS = ["down", "move", "up", "seek", "step", "choose", "nudge"];
const HOME = { azimuth: -0.9, elevation: 0.35 }; // the camera of a sphere
const MARGIN = 1.25; // half-width of the view of a sphere, in radii
const REPORT = 80; // milliseconds between two reports to the page

export class Painter {
  constructor(send) {
    Object.assign(this, {
      send, view: new View(), camera: new ConeCamera(), eye: { ...HOME }, coneHeight: 0, palette: null, pen: null, history: null, waiting: null,
      time: 0, playing: false, speed: 1, grip: null, chosen: -1, dirty: false, before: 0, reported: 0,
      frames: [], fresh: true, costs: [],
    });
  }

  /** Handles a message from the page. */
  receive(message) {
    if (!this.history && HANDS.includes(message.kind)) return; // there is nothing to drag yet
    this[message.kind]?.(message);
    this.ask();
  }

  canvas({ canvas }) {
    this.surface = canvas;
    this.pen = canvas.getContext("2d");
  }

  size({ width, height, ratio }) {
    Object.assign(this, { width, height, ratio });
    if (this.history) this.lay();
  }

  colours({ palette }) {
    this.palette = palette;
  }

  /** A flow begins, shown from its start or, if `keep`, at the current time. */
  begin({ cloud, keep, run }) {
    const history = new History(cloud);
    if (!keep || !this.history) this.show(history, run);
    else this.waiting = { history, run, since: performance.now() };
    if (!keep) this.time = cloud.t0;
  }

  steps({ run, steps }) {
    this.of(run)?.add(steps);
  }

  report({ run, ending, t, tStar }) {
    const history = this.of(run);
    if (history && ending) history.end = { ending, t, tStar };
  }

  of(run) {
    if (this.waiting?.run === run) return this.waiting.history;
    return this.run === run ? this.history : null;
  }

  show(history, run) {
    const same = this.history && this.history.size === history.size && this.history.cloud.d === history.cloud.d;
    Object.assign(this, { history, run, waiting: null, path: history.cloud.d === 2 && !history.cloud.radius ? new Path(history) : null });
    this.begun = momentsOf(history.cloud, history.cloud.first);
    this.hue = hues(history.cloud, this.begun.mean);
    this.state = new Float64Array(history.size);
    if (!same) Object.assign(this, { fresh: true, chosen: -1 });
    this.lay();
  }

  play({ playing }) {
    if (playing && this.history && this.time >= this.history.to) this.time = this.history.from;
    this.playing = playing;
    this.before = 0;
  }

  seek({ share, time }) {
    const { from, horizon } = this.history;
    this.time = Math.min(Math.max(time ?? from + share * (horizon - from), from), horizon);
  }

  /** One step of the integrator forward or back. */
  step({ by }) {
    this.playing = false;
    const { steps } = this.history;
    if (!steps.length) return;
    const index = this.history.index(this.time);
    const { t0, t1 } = steps[index];
    if (by > 0) this.time = this.time < t1 ? t1 : steps[Math.min(index + 1, steps.length - 1)].t1;
    else this.time = this.time > t0 ? t0 : steps[Math.max(index - 1, 0)].t0;
  }

  pace({ speed }) {
    this.speed = speed;
  }

  zoom({ factor }) {
    this.view.zoom = Math.min(Math.max(this.view.zoom * factor, 0.02), 50);
  }

  home() {
    Object.assign(this.view, { zoom: 1 });
    Object.assign(this.eye, HOME);
    this.camera.home();
    this.fresh = true;
  }

  /** The pointer is pressed: it drags a handle or a token, or turns the cone or the sphere. */
  down({ x, y }) {
    const isCone = this.path && this.camera.holds(x, y);
    this.grip = isCone ? null : grasped(this.visibleScene(), this.view, x, y);
    this.turning = isCone || (!this.grip && this.isSphere) ? { x, y } : null;
    this.send({ kind: "cursor", name: this.grip || this.turning ? "grabbing" : "default" });
    if (!this.grip) return;
    this.resumes = this.playing;
    this.playing = false;
    this.chosen = this.grip.token ?? -1;
  }

  move({ x, y }) {
    if (this.turning) {
      this.turn((x - this.turning.x) / 150, (y - this.turning.y) / 150);
      this.turning = { x, y };
    } else if (this.grip) this.edit(pointed(this.visibleScene(), this.view, x, y));
    else if (this.history && this.palette) {
      const turns = this.path && this.camera.holds(x, y);
      this.send({ kind: "cursor", name: turns || this.isSphere || grasped(this.visibleScene(), this.view, x, y) ? "grab" : "default" });
    }
  }

  /** Turns the sphere or the cone by two angles. */
  turn(right, down) {
    if (!this.isSphere) return this.camera.turn(right, down);
    this.eye.azimuth -= right;
    this.eye.elevation = Math.min(Math.max(this.eye.elevation + down, -Math.PI / 2), Math.PI / 2);
  }

  get isSphere() {
    return this.history?.cloud.radius && this.history.cloud.d === 3;
  }

  up() {
    if (this.grip && this.resumes) this.play({ playing: true });
    Object.assign(this, { grip: null, turning: null });
    this.send({ kind: "cursor", name: "default" });
  }

  /** Chooses the next token, for the keyboard; for a Gaussian, only the mean can be chosen. */
  choose({ by }) {
    const count = this.history.cloud.weights?.length ?? 0;
    const from = by < 0 ? Math.max(this.chosen, 0) : this.chosen;
    if (count) this.chosen = (from + by + count) % count;
    this.send({ kind: "chosen", token: this.chosen });
  }

  /** Moves the chosen handle or token by a share of the view, as dragging does. */
  nudge({ right, up }) {
    const scene = this.visibleScene();
    const grip = this.history.cloud.measure === "gaussian" ? { name: "mean" } : { token: this.chosen };
    if (grip.token < 0) return;
    const at = grip.name ? scene.now.mean : scene.state.subarray(grip.token * scene.cloud.d);
    const stride = this.view.half / this.view.zoom / 20;
    this.grip = grip;
    this.edit(scene.cloud.d > 1 ? [at[0] + right * stride, at[1] + up * stride] : [at[0] + up * stride]);
    this.grip = null;
  }

  /** Starts a new flow from the current state with the dragged part moved. */
  edit(point) {
    const scene = this.scene();
    const state = scene.cloud.radius ? draggedOnSphere(scene, this.eye, this.grip.token, point) : dragged(scene, this.grip, point);
    const cloud = { ...scene.cloud, first: state };
    this.show(new History(cloud), -1);
    this.time = cloud.t0;
    this.send({ kind: "moved", state });
  }

  /** The scene as the camera of a sphere sees it. */
  visibleScene() {
    return sceneFrom(this.eye, this.scene());
  }

  /** Everything that the pictures draw. */
  scene() {
    const { history, time, hue, begun, chosen, grip } = this;
    const state = history.at(time, this.state);
    const now = momentsOf(history.cloud, state);
    return { history, cloud: history.cloud, time, state, now, hue, begun, chosen, held: grip?.name, sampler };

    function sampler(count, from, to) {
      return Array.from({ length: count }, (_, i) => history.at(from + ((to - from) * i) / (count - 1)));
    }
  }

  /** The boxes of the pictures: side by side, or one below the other. */
  lay() {
    const { width, height } = this;
    const whole = { x: 0, y: 0, width, height };
    const side = width > height;
    const first = side ? { ...whole, width: Math.round(0.6 * width) } : { ...whole, height: Math.round(0.58 * height) };
    this.view.box = this.path ? first : whole;
    this.camera.box = side
      ? { ...whole, x: first.width, width: width - first.width }
      : { ...whole, y: first.height, height: height - first.height };
  }

  ask() {
    if (this.dirty || !this.pen || !this.history || !this.palette) return;
    this.dirty = true;
    requestAnimationFrame((clock) => this.frame(clock));
  }

  frame(clock) {
    this.dirty = false;
    const seconds = this.before ? Math.min((clock - this.before) / 1000, 0.1) : 0;
    this.before = clock;
    this.relieve(clock);
    if (this.playing) this.advance(seconds);
    const begun = performance.now();
    this.paint(this.fresh ? Infinity : seconds || 1 / 60);
    this.fresh = false;
    this.measure(clock, performance.now() - begun);
    if (this.playing || this.waiting || this.settling()) this.ask();
    else this.before = 0;
  }

  /** Shows a new history once it reaches the time that is shown. */
  relieve(clock) {
    if (!this.waiting) return;
    const { history, run, since } = this.waiting;
    if (history.to < this.time && !history.end && clock - since < PATIENCE) return;
    this.show(history, run);
    if (history.end) this.time = Math.min(this.time, history.to);
  }

  advance(seconds) {
    const { history } = this;
    const span = history.horizon - history.cloud.t0;
    this.time = Math.min(this.time + (this.speed * seconds * span) / PLAYING, history.to);
    if (history.end && this.time >= history.to) this.playing = false;
  }

  settling() {
    return Math.abs(this.view.half - (this.lastHalf ?? 0)) > 1e-3 * this.view.half;
  }

  paint(seconds) {
    const { pen, palette, view, camera } = this;
    const scene = this.visibleScene();
    this.lastHalf = view.half;
    this.fit();
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    this.follow(scene, seconds);
    if (scene.cloud.radius) globe(pen, palette, view, scene);
    else if (scene.cloud.d === 1) line(pen, palette, view, scene);
    else plane(pen, palette, view, scene);
    if (!this.path) return;
    this.path.grow();
    const path = this.path.upTo(scene.time, scene.now.covariance);
    this.coneHeight = followed(this.coneHeight, path, seconds);
    const look = () => ({ colour: palette.focus, marker: "o" });
    clipped(pen, camera.box, () => paintCone(pen, palette, camera, coneOf(path, this.coneHeight), { look }));
  }

  /** Sets the size of the canvas, which also clears it; the next line draws it again. */
  fit() {
    const [wide, high] = [Math.round(this.width * this.ratio), Math.round(this.height * this.ratio)];
    if (this.surface.width !== wide) this.surface.width = wide;
    if (this.surface.height !== high) this.surface.height = high;
  }

  follow({ cloud, now, begun }, seconds) {
    const deviation = spread(now.covariance.slice(0, 2).map((row) => row.slice(0, 2)));
    if (this.grip) return; // nothing moves while it is dragged
    if (cloud.radius) return this.view.show(MARGIN * cloud.radius);
    if (cloud.d > 1) this.view.follow(now.mean.slice(0, 2), deviation, seconds);
    else this.view.follow([0, begun.mean[0]], Math.max(spread(begun.covariance), deviation), seconds);
  }

  measure(clock, cost) {
    this.frames = [...this.frames.filter((t) => clock - t < 1000), clock];
    this.costs = [...this.costs.slice(-59), cost];
    if (clock - this.reported < REPORT && this.playing) return;
    this.reported = clock;
    const { history, time, playing, frames, costs } = this;
    const { mean, covariance } = this.scene().now;
    const rate = frames.length > 10 ? (1000 * (frames.length - 1)) / (clock - frames[0]) : null;
    this.send({
      kind: "shown", time, playing, from: history.from, to: history.to, horizon: history.horizon, end: history.end,
      mean, covariance, rate, cost: costs.reduce((a, b) => a + b, 0) / costs.length,
    });
  }
}

/** Receives messages from the page through `inbox`, and from the engine through its port. */
export function painter(inbox) {
  const artist = new Painter((message) => inbox.postMessage(message));
  inbox.onmessage = ({ data, ports }) => {
    if (data.kind === "engine") ports[0].onmessage = ({ data: news }) => artist.receive(news);
    else artist.receive(data);
  };
}
