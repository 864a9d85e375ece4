// The thread that integrates one flow after another, in double precision.

import { Flow } from "./flow.js";

const SLICE = 12; // milliseconds of work between two checks for messages
const REPORT = 100; // milliseconds between two progress reports

/** Listens to `inbox` for laws; sends steps to the painter and reports to the page. */
export function engine(inbox) {
  const state = { painter: null, flow: null, run: -1, begun: 0, reported: 0, work: 0 };
  const again = new MessageChannel(); // a message to itself returns sooner than a timer
  again.port1.onmessage = () => work(state, inbox, again.port2);
  inbox.onmessage = ({ data, ports }) => {
    if (data.kind === "painter") [state.painter] = ports;
    if (data.kind === "start") begin(state, data, inbox, again.port2);
  };
}

function begin(state, { law, run, keep }, inbox, next) {
  const idle = !state.flow;
  Object.assign(state, { flow: new Flow(law), run, reported: 0, work: 0 });
  const { d, weights, y, ending } = state.flow;
  const { measure, t0, t, causal, noise, radius } = law;
  state.painter.postMessage({ kind: "begin", run, keep, cloud: { measure, d, weights, t0, t, causal, noise, radius, first: y } });
  if (ending) finish(state, inbox);
  else if (idle) next.postMessage(null);
}

function work(state, inbox, next) {
  if (!state.flow) return;
  const [begun, steps] = [performance.now(), []];
  do {
    const step = state.flow.step();
    if (step) steps.push(step);
  } while (!state.flow.ending && performance.now() - begun < SLICE);
  state.work += performance.now() - begun;
  const buffers = steps.map((step) => step.parts.buffer);
  state.painter.postMessage({ kind: "steps", run: state.run, steps }, buffers);
  if (state.flow.ending) {
    finish(state, inbox);
    return;
  }
  if (performance.now() - state.reported > REPORT) {
    state.reported = performance.now();
    inbox.postMessage(report(state));
  }
  next.postMessage(null);
}

function finish(state, inbox) {
  const message = report(state);
  state.painter.postMessage(message);
  inbox.postMessage(message);
  state.flow = null;
}

function report({ flow, run, work }) {
  const { ending, t, accepted, rejected, velocities, tStar } = flow;
  return { kind: "report", run, ending, t, accepted, rejected, velocities, tStar, seconds: work / 1000 };
}
