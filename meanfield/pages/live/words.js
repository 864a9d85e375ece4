// The texts of the page about a flow.

import { NAMES } from "./law.js";
import { shown } from "../../plotting/pages/scales.js";

const REASONS = {
  finished: "the last time was reached",
  steady: "the remaining displacement is below the tolerance",
  "blow-up": "the size grows without bound in finite time",
  "max-steps": "the maximum number of steps was reached, or steps shrank to rounding",
  "not-finite": "the velocity or the state is no longer finite",
  unconverged: "Sinkhorn's iteration missed its tolerance",
};

const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

export function lawInWords(law) {
  const what = law.measure === "gaussian" ? "a Gaussian" : counted(law.start.x.length, "token");
  const d = law.heads[0].V.length;
  const heads = law.heads.length > 1 ? `, ${law.heads.length} heads` : "";
  const mask = law.causal ? ", causal" : "";
  const noise = law.noise ? `, noise ${shown(law.noise)}` : "";
  const space = law.radius ? ` on a ${d === 2 ? "circle" : "sphere"}` : "";
  const plane = `; coordinates 1 and 2 of ${d} are drawn`;
  const drawn = d > 2 ? (law.radius ? "; drag beside the tokens to turn the sphere" : plane) : "";
  return `${NAMES[law.attention].replace(/^./, (letter) => letter.toUpperCase())} attention moves ${what} in ${counted(d, "dimension")}${space}${heads}${mask}${noise}${drawn}.${law.start.x ? ` ${dotsInWords(law)}` : ""}`;
}

/** The meaning of the colours of tokens, as chosen by `hues`, and of their sizes. */
function dotsInWords({ causal, heads, start }) {
  const onLine = heads[0].V.length === 1 ? "place on the line at the start" : "direction from the mean at the start";
  return `Colours of tokens: their ${causal ? "order" : onLine}${start.weights ? "; areas: their weights" : ""}.`;
}

/** Text on how a flow ended, or that it goes on. */
export function endingInWords(report, law) {
  if (!report?.ending) return "Integrating.";
  const at = report.tStar
    ? `at t* = ${shown(report.tStar.time, 8)} ± ${shown(report.tStar.error, 2)}` : `at t = ${shown(report.t, 6)}`;
  const noisy = law.noise && law.measure === "points" ? " Paths are one draw of the noise." : "";
  return `${report.ending} ${at}: ${REASONS[report.ending]}.${noisy}`;
}

/** Text with the time left until the blow-up. */
export function starInWords({ end, time }) {
  if (!end?.tStar) return "";
  const { time: tStar, error } = end.tStar;
  return `t* = ${shown(tStar, 8)} ± ${shown(error, 2)} · ${shown(Math.max(tStar - time, 0), 4)} to go`;
}

export function momentsInWords({ time, mean, covariance }) {
  const trace = covariance.reduce((sum, row, k) => sum + row[k], 0);
  const near = mean.slice(0, 3).map((x) => shown(x, 3)).join(", ");
  return `At t = ${shown(time)} the mean is (${near}${mean.length > 3 ? ", …" : ""}) and the trace of the covariance ${shown(trace)}.`;
}

export function ratesInWords(report, drawing) {
  if (!report) return "";
  const seconds = Math.max(report.seconds, 1e-4);
  const steps = `${report.accepted} steps (${shown(report.accepted / seconds, 3)} a second), ${report.rejected} rejected, `
    + `${shown(report.velocities / seconds, 3)} velocities a second`;
  return drawing?.rate ? `${steps}; ${Math.round(drawing.rate)} frames a second.` : `${steps}.`;
}
