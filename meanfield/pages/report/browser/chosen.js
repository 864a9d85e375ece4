// The chosen token: its path so far, and the tokens that it attends to.

const tokenLayer = () => visible().find((layer) => layer.type === "tokens");

function paintChoice(pen) {
  const layer = tokenLayer();
  if (!layer || stage.token < 0) return;
  const screen = stage.screens.get(layer);
  const count = layer.positions.steps.shape[2];
  if (stage.token >= count) return;
  paintWay(pen, layer);
  paintLooks(pen, screen, count);
  pen.strokeStyle = palette.ink;
  pen.lineWidth = 2;
  pen.beginPath();
  pen.arc(screen[stage.token], screen[count + stage.token], 7, 0, 2 * Math.PI);
  pen.stroke();
}

/** Draws the path of the chosen token up to the current time. */
function paintWay(pen, layer) {
  if (flow.scene.axes.length === 1) return;
  const { low, step, steps } = layer.positions;
  const [, width, count] = steps.shape;
  const now = momentOf(layer);
  pen.strokeStyle = palette.soft;
  pen.lineWidth = 1.5;
  pen.beginPath();
  for (let frame = 0; frame <= now.low; frame++) {
    const point = Array.from({ length: width }, (_, k) => low.data[frame * width + k] + step.data[frame * width + k] * steps.data[(frame * width + k) * count + stage.token]);
    pen.lineTo(...stage.view.place(point));
  }
  const screen = stage.screens.get(layer);
  pen.lineTo(screen[stage.token], screen[count + stage.token]);
  pen.stroke();
}

/** The tokens that the chosen token attends to, with their weights, at the nearest stored time. */
function looks() {
  const lines = flow.scene.lines;
  if (!lines || stage.token < 0) return null;
  const [, heads, tokens, kept] = lines.partners.shape;
  const t = timeAt(flow.place);
  const times = Array.from(lines.times.data);
  const snapshot = times.reduce((best, time, i) => (Math.abs(time - t) < Math.abs(times[best] - t) ? i : best), 0);
  const from = ((snapshot * heads + Math.min(stage.head, heads - 1)) * tokens + stage.token) * kept;
  const partners = Array.from(lines.partners.data.subarray(from, from + kept));
  const weights = Array.from(lines.weights.data.subarray(from, from + kept), (w) => w / 65535);
  return { t: times[snapshot], partners, weights };
}

function paintLooks(pen, screen, count) {
  const look = looks();
  if (!look) return;
  const largest = look.weights[0] || 1;
  look.partners.forEach((partner, i) => {
    pen.strokeStyle = css(legible([213, 94, 0]), 0.25 + 0.75 * (look.weights[i] / largest));
    pen.lineWidth = 0.5 + 3.5 * (look.weights[i] / largest);
    pen.beginPath();
    pen.moveTo(screen[stage.token], screen[count + stage.token]);
    pen.lineTo(screen[partner], screen[count + partner]);
    pen.stroke();
  });
}

/** Text about the chosen token. */
function choiceWords() {
  const layer = tokenLayer();
  if (!layer || stage.token < 0) return layer ? "Click a token, or press ] to choose one." : "";
  const count = layer.positions.steps.shape[2];
  const width = layer.places.length / count;
  const place = Array.from({ length: width }, (_, k) => shown(layer.places[k * count + stage.token]));
  const look = looks();
  const head = `Token ${tokenName(stage.token)} at (${place.join(", ")}).`;
  if (!look) return head;
  const partners = look.partners.slice(0, 4).map((partner, i) => `${tokenName(partner)} (${shown(100 * look.weights[i], 3)} %)`);
  const sum = shown(100 * look.weights.reduce((a, b) => a + b, 0), 3);
  return `${head} At ${timeWords(look.t)}, the nearest time whose attention is kept, it looks most at ${partners.join(", ")}; the ${look.partners.length} lines hold ${sum} %.`;
}

/** The token nearest to a place on the stage, if it is close enough. */
function tokenAt(x, y) {
  const layer = tokenLayer();
  if (!layer) return -1;
  const screen = stage.screens.get(layer);
  const count = layer.positions.steps.shape[2];
  let [nearest, least] = [-1, 14 ** 2];
  for (let i = 0; i < count; i++) {
    const away = (screen[i] - x) ** 2 + (screen[count + i] - y) ** 2;
    if (away < least) [nearest, least] = [i, away];
  }
  return nearest;
}
