// The legend of the colours of tokens: a wheel of directions, a scale, or the colours of clusters.

const KEY = { tall: 34, bar: 96, square: 14 }; // sizes of the legend, in pixels

/** The text of a colouring, and the function that paints its colours beside it. */
function keyOf(layer, colouring) {
  const isLine = flow.scene.axes.length === 1;
  const [first, second] = flow.scene.axes.map((name) => name.replace(/ \(.*/, ""));
  const start = isLine
    ? ["rank on the line at the start, from the left", numberBar]
    : [`direction from the mean at the start: ${first} to the right, ${second} up`, wheel];
  return {
    start,
    cluster: ["cluster at the end, the heaviest first", squares(layer)],
    norm: [`norm, from 0 to the largest (${shown(largestNorm(layer))} now)`, numberBar],
    position: ["position, from the first to the last", numberBar],
  }[colouring];
}

function paintKey() {
  const layer = tokenLayer();
  const key = layer && keyOf(layer, stage.colouring);
  byId("key").hidden = !key;
  if (!key) return;
  const [words, paint] = key;
  byId("key-words").textContent = words;
  byId("key-colours").className = paint === wheel ? "wheel" : "";
  paint(penOf(byId("key-colours")).pen);
}

/** Draws the hues of `byStart`, each in its direction. */
function wheel(pen) {
  const middle = KEY.tall / 2;
  pen.lineWidth = 6;
  pen.lineCap = "butt";
  for (let k = 0; k < 48; k++) {
    const [from, to] = [k, k + 1.2].map((turn) => (-2 * Math.PI * turn) / 48); // canvas angles increase clockwise
    pen.strokeStyle = css(directed((k + 0.5) / 48));
    pen.beginPath();
    pen.arc(middle, middle, middle - 5, from, to, true);
    pen.stroke();
  }
}

const numberBar = (pen) => gradedBar(pen, KEY.bar, KEY.square, (KEY.tall - KEY.square) / 2);

/** Draws a square for each cluster, as long as there is room. */
const squares = (layer) => (pen) => {
  const labels = new Set(Array.from(layer.clusters.data).filter((label) => label !== NO_CLUSTER));
  const room = Math.floor(KEY.bar / (KEY.square + 2));
  for (let k = 0; k < Math.min(labels.size, room); k++) {
    pen.fillStyle = css(category(k));
    pen.fillRect(k * (KEY.square + 2), (KEY.tall - KEY.square) / 2, KEY.square, KEY.square);
  }
};
