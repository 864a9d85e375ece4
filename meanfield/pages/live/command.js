// The command line that repeats the flow of the page.

import { multiple, square } from "./matrix.js";

/** A matrix as the value of an option: a number `c` for `c I`, otherwise its rows. */
function matrixWord(M) {
  const c = multiple(M);
  return c === null ? JSON.stringify(M) : String(c);
}

const isIdentity = (M) => matrixWord(M) === "1";

/** The value of an option for the matrices of all heads, with commas between. */
const ofHeads = (heads, name) => heads.map((head) => matrixWord(head[name])).join(",");

function scores(heads) {
  const bare = heads.every(({ K }) => isIdentity(K));
  return bare ? [["A", ofHeads(heads, "Q")]] : [["Q", ofHeads(heads, "Q")], ["K", ofHeads(heads, "K")]];
}

/** The options of the start: the original ones or, if it was dragged or is one of a family, its numbers. */
function start(law, isEdited) {
  if (!isEdited) return law.origin;
  if (law.measure === "gaussian") {
    return ["--mean", JSON.stringify(law.start.mean), "--cov", matrixWord(square(law.start.factor))];
  }
  const weights = law.start.weights;
  return ["--init", "@tokens.csv", ...(weights ? ["--weights", JSON.stringify(weights)] : [])];
}

const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** The words of the command, ready for a shell. */
export function wordsOf(law, isEdited) {
  const d = law.measure === "gaussian" ? law.start.mean.length : law.start.x[0].length;
  const first = start(law, isEdited);
  const options = [
    ["measure", law.measure], ["attention", law.attention], ...scores(law.heads), ["V", ofHeads(law.heads, "V")],
    ...(law.heads.length > 1 ? [["heads", law.heads.length]] : []),
    ...(law.epsilon === 1 ? [] : [["epsilon", law.epsilon]]),
    ...(law.iterations ? [["iterations", law.iterations]] : []),
    ...(law.causal ? [["mask", "causal"]] : []),
    ...(law.noise ? [["noise", law.noise]] : []),
    ...(law.radius && !first.includes("--space") ? [["space", `sphere:${law.radius}`]] : []),
    ...(first.includes("--d") ? [] : [["d", d]]),
    ["t", first.includes("--from") ? law.t : law.t - law.t0], ...(law.steady ? [["steady", law.steady]] : []),
  ];
  const words = options.map(([name, value]) => `--${name}=${value}`);
  return ["meanfield simulate", ...[...words, ...law.steps, ...first].map(quoted)];
}

export const commandOf = (law, isEdited) => wordsOf(law, isEdited).join(" ");

/** The tokens as a table, a row for each. */
export const tableOf = (x) => x.map((row) => `${row.join(",")}\n`).join("");
