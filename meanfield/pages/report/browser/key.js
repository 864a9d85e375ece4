// The legend of the colours of tokens: a scale, or the colours of clusters.

const KEY = { tall: 34, bar: 96, square: 14 }; // sizes of the legend, in pixels

/** The text of a colouring, and the function that paints its colours beside it. */
function keyOf(layer, colouring) {
  const [low, high] = firstAxis(layer).map((x) => shown(x, 3));
  return {
    start: [`${flow.scene.axes[0].replace(/ \(.*/, "")} at the start: ${low} to ${high}`, numberBar],
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
  paint(penOf(byId("key-colours")).pen);
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
