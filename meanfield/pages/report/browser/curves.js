// Curves over time with a common cursor; clicking or dragging on any of them sets the time.

const curves = { made: [] };
const CURVE = { left: 52, right: 10, top: 8, bottom: 22, row: 16 };

function readyCurves() {
  byId("curves").replaceChildren();
  curves.made = flow.scene.panels.map((panel) => {
    const figure = element("figure");
    const caption = element("figcaption");
    const readout = element("output");
    const canvas = element("canvas", { role: "img" });
    caption.append(element("span", {}, panel.title), readout);
    figure.append(caption, canvas);
    byId("curves").append(figure);
    draggable(canvas, (x) => goTo(placeOf(timeOn(canvas, x))));
    return { panel, canvas, readout, range: rangeOf(panel) };
  });
}

/** The least and largest value of a panel, and whether its scale is logarithmic, unless it is `linear`. */
function rangeOf(panel) {
  let [low, high, positive] = [Infinity, -Infinity, Infinity];
  for (const value of panel.values.data) {
    if (!Number.isFinite(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
    if (value > 0) positive = Math.min(positive, value);
  }
  if (!panel.linear && low >= 0 && high > 100 * positive) return { low: positive, high, log: true };
  if (low === 0 && high === 0) return { low: -0.05, high: 1, log: false };
  const margin = 0.06 * (high - low) || 0.5 * Math.abs(high) || 1;
  return low > high ? { low: 0, high: 1, log: false } : { low: low - margin, high: high + margin, log: false };
}

const span = () => [flow.scene.times.data[0], flow.scene.times.data[frames() - 1]];

/** The time axis, linear or logarithmic: shares of its length, times, and ticks. */
function timeAxis() {
  const [start, last] = span();
  const linear = { shareOf: (t) => (t - start) / (last - start || 1), timeOf: (share) => start + share * (last - start), ticksOf: (n) => ticks(start, last, n) };
  if (!flow.scene.log) return linear;
  const first = flow.scene.times.data.find((t) => t > 0);
  const decays = Math.log(last / first);
  return { shareOf: (t) => Math.log(Math.max(t, first) / first) / decays, timeOf: (share) => first * Math.exp(share * decays), ticksOf: (n) => decades(first, last, n) };
}

function timeOn(canvas, x) {
  const share = (x - CURVE.left) / (canvas.clientWidth - CURVE.left - CURVE.right);
  return timeAxis().timeOf(Math.min(Math.max(share, 0), 1));
}

function paintCurves() {
  for (const curve of curves.made) paintPanel(curve);
}

function paintPanel({ panel, canvas, readout, range }) {
  const { pen, width, height } = penOf(canvas);
  const axis = timeAxis();
  const foot = CURVE.bottom + (flow.scene.depth.length ? CURVE.row : 0);
  const inner = [width - CURVE.left - CURVE.right, height - CURVE.top - foot];
  const across = (t) => CURVE.left + inner[0] * axis.shareOf(t);
  const rise = (v) => (range.log ? Math.log(v / range.low) / Math.log(range.high / range.low) : (v - range.low) / (range.high - range.low));
  const upwards = (v) => CURVE.top + inner[1] * (1 - rise(v));
  paintGrid(pen, { range, across, upwards, width, axis, ground: height - foot });
  paintLayers(pen, { across, last: span()[1], ground: height - foot });
  for (const mark of flow.scene.marks) paintMark(pen, mark, across, height - foot);
  const [members, names, times] = panel.values.shape;
  const now = panel.members.indexOf(member().number);
  for (let m = 0; m < members; m++) if (m !== now) paintMember(pen, panel, m, across, upwards, range, 0.25);
  if (now >= 0 || members === 1) paintMember(pen, panel, Math.max(now, 0), across, upwards, range, 1);
  const t = timeAt(flow.place);
  pen.fillStyle = palette.focus;
  pen.fillRect(across(t) - 0.75, CURVE.top, 1.5, inner[1]);
  const values = valuesAt(panel, Math.max(now, 0), t);
  readout.replaceChildren(...panel.names.map((name, k) => {
    const entry = element("span", {}, `${panel.names.length > 1 ? `${name} ` : ""}${shown(values[k])}`);
    entry.style.color = css(curveInk(panel, k));
    return entry;
  }));
  canvas.setAttribute("aria-label", `${panel.title} at t = ${shown(t)}: ${panel.names.map((name, k) => `${name} ${shown(values[k])}`).join(", ")}`);
}

function paintGrid(pen, { range, across, upwards, width, axis, ground }) {
  pen.fillStyle = palette.soft;
  pen.strokeStyle = palette.line;
  pen.lineWidth = 1;
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  const exact = (level, digits) => Math.abs(Number(level.toPrecision(digits)) - level) <= 1e-9 * Math.abs(level);
  const levels = range.log ? decades(range.low, range.high, 4) : ticks(range.low, range.high, 4);
  const digits = [3, 4, 5, 6, 7].find((k) => levels.every((level) => exact(level, k))) || 3;
  for (const level of levels.length ? levels : [range.high]) {
    pen.fillText(shown(level, digits), CURVE.left - 6, upwards(level));
    trail(pen, [[CURVE.left, upwards(level)], [width - CURVE.right, upwards(level)]]);
    pen.stroke();
  }
  pen.textAlign = "center";
  pen.textBaseline = "alphabetic";
  for (const tick of axis.ticksOf(width / 90)) {
    const most = width - pen.measureText(shown(tick)).width / 2; // so that no label is cut
    pen.fillText(shown(tick), Math.min(across(tick), most), ground + 17);
  }
}

/** Draws the layers of a model below the time axis, with a separator where a layer ends. */
function paintLayers(pen, { across, last, ground }) {
  const { depth } = flow.scene;
  if (!depth.length) return;
  const row = ground + 17 + CURVE.row;
  const ends = depth.map(({ start }, i) => [across(Math.max(start, span()[0])), across(i + 1 < depth.length ? depth[i + 1].start : last)]);
  const stride = Math.ceil(24 / Math.min(...ends.map(([a, b]) => Math.max(b - a, 1))));
  pen.textAlign = "right";
  pen.fillText("t", CURVE.left - 14, ground + 17);
  pen.fillText("layer", CURVE.left - 6, row);
  pen.textAlign = "center";
  ends.forEach(([from, to], i) => {
    if (i % stride === 0) pen.fillText(String(depth[i].number), (from + to) / 2, row);
    if (i === 0) return;
    trail(pen, [[from, CURVE.top], [from, ground]]);
    pen.stroke();
  });
}

/** Draws a marked time; the marks of other members are faint and have no label. */
function paintMark(pen, { t, label, member: number }, across, ground) {
  const own = number === undefined || number === member().number;
  pen.strokeStyle = css(legible([213, 94, 0]), own ? 0.9 : 0.2);
  pen.setLineDash([2, 3]);
  trail(pen, [[across(t), CURVE.top], [across(t), ground]]);
  pen.stroke();
  pen.setLineDash([]);
  if (!own) return;
  pen.fillStyle = palette.soft;
  pen.textAlign = "right";
  pen.fillText(label, across(t) - 3, (CURVE.top + ground) / 2);
}

/** Colours of curves; a tolerance is dashed, in the colour of its pair. */
function curveInk(panel, k) {
  const pair = panel.names.indexOf(panel.names[k].replace(", tolerance", ""));
  return legible(CATEGORIES[pair % CATEGORIES.length]);
}

function paintMember(pen, panel, m, across, upwards, range, alpha) {
  const [, names, times] = panel.values.shape;
  for (let k = 0; k < names; k++) {
    pen.strokeStyle = pen.fillStyle = css(curveInk(panel, k), alpha);
    pen.setLineDash(panel.names[k].endsWith(", tolerance") ? [4, 3] : []);
    pen.lineWidth = alpha === 1 ? 1.8 : 0.8;
    pen.beginPath();
    const row = (m * names + k) * times;
    for (const piece of pieces(panel, panel.values.data.subarray(row, row + times), range)) {
      piece.forEach(([t, value], i) => (i ? pen.lineTo(across(t), upwards(value)) : pen.moveTo(across(t), upwards(value))));
    }
    pen.stroke();
  }
  pen.setLineDash([]);
}

/** The points (t, value) of a curve, one list for each stretch of finite values; counts are constant between frames. */
function pieces(panel, values, range) {
  const made = [];
  let resting = true;
  values.forEach((value, i) => {
    const seen = Number.isFinite(value) && (!range.log || value > 0);
    const t = panel.times.data[i];
    if (seen && resting) made.push([]);
    const piece = made[made.length - 1];
    if (seen && !resting && panel.steps) piece.push([t, values[i - 1]]);
    if (seen) piece.push([t, value]);
    resting = !seen;
  });
  return made;
}

/** The values of a member at a time between frames; counts are those of the preceding frame. */
function valuesAt(panel, m, t) {
  const [, names, times] = panel.values.shape;
  const { low, next, share } = within(panel.times.data, t);
  return panel.names.map((_, k) => {
    const row = (m * names + k) * times;
    const [a, b] = [panel.values.data[row + low], panel.values.data[row + next]];
    if (share === 0 || panel.steps) return a;
    return (1 - share) * a + share * b;
  });
}
