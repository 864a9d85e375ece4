// Threads that run the page's own script.

import { engine } from "./engine.js";
import { painter } from "./painter.js";
import { readPalette } from "../../plotting/pages/palette.js";

const ROLES = { engine, painter };

/** Runs the function of this thread, which is named after its role. */
export function play(role) {
  ROLES[role](self);
}

/** Starts a thread with a role; if it fails, the page receives `{kind: "failed"}`. */
function worker(name, hear) {
  const code = new Blob([document.getElementById("code").textContent], { type: "text/javascript" });
  const thread = new Worker(URL.createObjectURL(code), { name });
  thread.onmessage = ({ data }) => hear(data);
  thread.onerror = ({ message }) => hear({ kind: "failed", message: `${name}: ${message}` });
  return thread;
}

/** Runs a role in the thread of the page, for browsers that cannot draw in another thread. */
function beside(role, hear) {
  const inside = { postMessage: hear };
  const outside = { postMessage: (data, ports) => inside.onmessage({ data, ports }) };
  role(inside);
  return outside;
}

export const engineThread = (hear) => worker("engine", hear);

/** The thread that draws on a canvas, and hears the engine. */
export function painterThread(canvas, engineWorker, hear) {
  const isOwn = "transferControlToOffscreen" in canvas && typeof OffscreenCanvas === "function";
  const thread = isOwn ? worker("painter", hear) : beside(painter, hear);
  const { port1, port2 } = new MessageChannel();
  const surface = isOwn ? canvas.transferControlToOffscreen() : canvas;
  engineWorker.postMessage({ kind: "painter" }, [port1]);
  thread.postMessage({ kind: "engine" }, [port2]);
  thread.postMessage({ kind: "canvas", canvas: surface }, isOwn ? [surface] : []);
  const tellColours = () => thread.postMessage({ kind: "colours", palette: readPalette() });
  const tellSize = () => thread.postMessage({
    kind: "size", width: canvas.clientWidth, height: canvas.clientHeight, ratio: devicePixelRatio || 1,
  });
  tellColours();
  tellSize();
  new ResizeObserver(tellSize).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tellColours);
  return thread;
}
