// The page: two threads, sliders, pointer and keys.

import { fillAxes } from "./axes.js";
import { commandOf, tableOf, wordsOf } from "./command.js";
import { unpacked } from "./gaussians.js";
import { hashOf, holdsStart, lawFrom } from "./link.js";
import { element, fill } from "./sliders.js";
import { engineThread, painterThread } from "./threads.js";
import { endingInWords, lawInWords, momentsInWords, ratesInWords, starInWords } from "./words.js";
import { shown } from "../../plotting/pages/scales.js";

const part = (id) => document.getElementById(id);

export class Page {
  constructor() {
    this.initial = JSON.parse(part("data").textContent);
    Object.assign(this, { law: this.initial, isEdited: this.initial.origin === null, run: 0, report: null, shown: null, message: "" });
    const hear = (message) => this[`on_${message.kind}`](message);
    this.engine = engineThread(hear);
    this.painter = painterThread(part("scene"), this.engine, hear);
    this.listen();
    this.followLink();
    this.start(false);
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) this.play(true);
  }

  /** Reads the state in the address; shows a message if it does not belong to this page. */
  followLink() {
    try {
      Object.assign(this, lawFrom(location.hash, this.initial));
    } catch (error) {
      Object.assign(this, { law: this.initial, isEdited: this.initial.origin === null });
      this.message = `The link does not fit this page (${error.message}); here is its own flow. `;
    }
    this.sliders();
  }

  /** Starts a flow of the current law, shown from its start or at the current time. */
  start(keep) {
    this.run += 1;
    this.engine.postMessage({ kind: "start", law: this.law, run: this.run, keep });
    this.report = null;
    part("summary").textContent = "Integrating.";
    part("law").textContent = lawInWords(this.law);
    const [before, now] = [this.initial, this.law].map(({ attention }) => `${attention} attention`);
    document.querySelector("h1").textContent = this.initial.title.replace(before, now);
    const words = wordsOf(this.law, this.isEdited).flatMap((word) => [" ", element("span", {}, word)]);
    part("command").replaceChildren(...words.slice(1)); // lines break only between two words
    part("save").hidden = !(this.isEdited && this.law.start.x);
  }

  sliders() {
    this.fillSliders();
    this.fillAxes();
  }

  fillSliders() {
    fill(part("sliders"), () => this.law, (law) => {
      this.change(law);
      this.fillAxes();
    });
  }

  fillAxes() {
    fillAxes(part("axes"), this.initial, () => this.law, (law, isStart) => {
      this.isEdited ||= isStart;
      this.change(law);
      this.fillSliders();
    });
  }

  /** Sets another law, and new sliders if it has other parts. */
  change(law) {
    const shape = ({ attention, causal, heads }) => JSON.stringify([attention, causal, heads.length]);
    const isOther = shape(law) !== shape(this.law);
    const focus = document.activeElement?.id;
    this.law = law;
    if (isOther) this.fillSliders();
    if (isOther && focus) part(focus)?.focus();
    this.start(true);
  }

  tell(kind, values = {}) {
    this.painter.postMessage({ kind, ...values });
  }

  play(playing) {
    this.tell("play", { playing });
  }

  /** Shows the progress of the integration. */
  on_report(report) {
    if (report.run !== this.run) return;
    this.report = report;
    if (report.ending) this.announce();
  }

  /** Says in the live region how the flow ended and, while playback is paused, what is shown. */
  announce() {
    const moments = this.shown && !this.shown.playing ? ` ${momentsInWords(this.shown)}` : "";
    part("summary").textContent = `${this.message}${endingInWords(this.report, this.law)}${moments}`;
    this.message = "";
  }

  on_shown(news) {
    if (!this.shown) performance.mark("first picture");
    const stopped = this.shown?.playing && !news.playing;
    this.shown = news;
    const span = news.horizon - news.from;
    if (document.activeElement !== part("time") || news.playing) part("time").value = span > 0 ? (news.time - news.from) / span : 0;
    part("clock").textContent = `t = ${shown(news.time)}`;
    part("star").textContent = starInWords(news);
    part("play").textContent = news.playing ? "‖" : "▶\ufe0e";
    part("play").ariaLabel = news.playing ? "Pause" : "Play";
    part("rates").textContent = ratesInWords(this.report, news);
    if (stopped) this.announce();
  }

  /** The user made the current state, with a change, the start of a new flow. */
  on_moved({ state }) {
    const d = this.law.heads[0].V.length;
    const rows = (flat) => Array.from({ length: flat.length / d }, (_, i) => Array.from(flat.subarray(i * d, (i + 1) * d)));
    const start = this.law.measure === "gaussian" ? unpacked(state, d) : { ...this.law.start, x: rows(state) };
    Object.assign(this, { law: { ...this.law, start }, isEdited: true });
    this.fillAxes();
    this.start(false);
  }

  /** A thread of the page has failed: this is a bug, which must be visible. */
  on_failed({ message }) {
    part("summary").textContent = `This page has failed (${message}); please report it.`;
    console.error(message);
  }

  on_cursor({ name }) {
    part("scene").style.cursor = name;
  }

  on_chosen({ token }) {
    part("summary").textContent = token < 0 ? "" : `Token ${token + 1} is chosen: shift and arrows move it.`;
  }

  listen() {
    const scene = part("scene");
    const at = ({ offsetX, offsetY }) => ({ x: offsetX, y: offsetY });
    scene.addEventListener("pointerdown", (event) => {
      scene.setPointerCapture(event.pointerId);
      this.tell("down", at(event));
    });
    scene.addEventListener("pointermove", (event) => this.tell("move", at(event)));
    for (const name of ["pointerup", "pointercancel"]) scene.addEventListener(name, () => this.tell("up"));
    scene.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.tell("zoom", { factor: Math.exp(-event.deltaY / 500) });
    }, { passive: false });
    addEventListener("keydown", (event) => this.onKey(event));
    addEventListener("hashchange", () => {
      this.followLink();
      this.start(false);
    });
    this.listenToButtons();
  }

  listenToButtons() {
    const click = (id, action) => part(id).addEventListener("click", action);
    click("play", () => this.play(!this.shown?.playing));
    click("back", () => this.tell("step", { by: -1 }));
    click("step", () => this.tell("step", { by: 1 }));
    click("reset", () => this.reset());
    click("home", () => this.tell("home"));
    click("copy", () => this.copy(commandOf(this.law, this.isEdited), "The command is copied."));
    click("link", () => this.copyLink());
    click("save", () => this.save());
    part("time").addEventListener("input", () => {
      this.play(false);
      this.tell("seek", { share: Number(part("time").value) });
    });
    part("speed").addEventListener("change", () => this.tell("pace", { speed: Number(part("speed").value) }));
    for (const form of [part("sliders"), part("axes")]) form.addEventListener("submit", (event) => event.preventDefault());
  }

  /** Handles keys, except those that a field needs. */
  onKey(event) {
    if (event.target.matches?.("input, select, button, summary, pre") || event.ctrlKey || event.metaKey || event.altKey) return;
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    const actions = {
      " ": () => this.play(!this.shown?.playing), r: () => this.reset(), R: () => this.reset(),
      Home: () => this.tell("seek", { share: 0 }), End: () => this.tell("seek", { share: 1 }),
      "+": () => this.tell("zoom", { factor: 1.25 }), "-": () => this.tell("zoom", { factor: 0.8 }),
      "[": () => this.tell("choose", { by: -1 }), "]": () => this.tell("choose", { by: 1 }),
    };
    if (way && event.shiftKey) this.tell("nudge", { right: way[0], up: way[1] });
    else if (way?.[0]) this.tell("step", { by: way[0] });
    else if (actions[event.key]) actions[event.key]();
    else return;
    event.preventDefault();
  }

  reset() {
    Object.assign(this, { law: this.initial, isEdited: this.initial.origin === null });
    history.replaceState(null, "", location.pathname + location.search);
    this.sliders();
    this.tell("home");
    this.start(false);
  }

  async copy(text, done) {
    try {
      await navigator.clipboard.writeText(text);
      part("summary").textContent = done;
    } catch {
      part("summary").textContent = `This browser lets no page copy; here it is: ${text}`;
    }
  }

  copyLink() {
    history.replaceState(null, "", `#${hashOf(this.law, this.initial, this.isEdited)}`);
    const cut = this.isEdited && !holdsStart(this.law);
    this.copy(location.href, cut ? "The link is copied; the start is too long for it." : "The link is copied.");
  }

  save() {
    const table = new Blob([tableOf(this.law.start.x)], { type: "text/csv" });
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(table), download: "tokens.csv" });
    link.click();
    URL.revokeObjectURL(link.href);
  }
}
