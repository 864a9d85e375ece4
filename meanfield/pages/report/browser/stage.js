// The stage: one canvas for tokens and densities, and above it one for lines, ellipses and axes.

const stage = { below: null, above: null, colouring: null, token: -1, head: 0, view: null, screens: null, labels: [] };
const INKS = { Gaussian: [213, 94, 0], closure: [213, 94, 0], tokens: [0, 114, 178], density: [0, 158, 115] };

const inkOf = (layer) => css(legible(INKS[nameOf(layer)] || [213, 94, 0]));
const momentOf = (layer) => within(layer.times.data, timeAt(flow.place));

function paintStage() {
  const canvas = penOf(stage.above);
  const below = stage.below;
  [below.width, below.height] = [stage.above.width, stage.above.height];
  const dimension = flow.scene.axes.length;
  if (dimension === 1) paintOnLine(canvas);
  else paintInSpace(canvas, dimension);
  paintChoice(canvas.pen);
  paintWords(canvas.pen, canvas.width, canvas.height);
}

function paintInSpace({ pen, width, height, ratio }, dimension) {
  const view = (stage.view = viewOf(partNow(), dimension, width, height));
  const ground = stage.below.getContext("2d", { willReadFrequently: true });
  ground.fillStyle = palette.paper;
  ground.fillRect(0, 0, stage.below.width, stage.below.height);
  ground.setTransform(ratio, 0, 0, ratio, 0, 0);
  for (const layer of visible()) if (layer.type === "density") paintDensity(ground, layer, momentOf(layer), view);
  paintTokens(ground, ratio, (layer, places) => screenOf(layer, places, view));
  if (flow.scene.radius) circle(pen, view);
  if (dimension === 2) rulers(pen, view);
  else tripod(pen, view);
  for (const layer of visible()) {
    if (layer.type === "gaussian") paintEllipse(pen, layer, momentOf(layer), view, inkOf(layer), layer.name === "closure" ? [7, 5] : []);
    if (layer.outlined) paintEllipse(pen, layer, momentOf(layer), view, css(legible([90, 90, 90]), 0.8), []);
  }
  if (visible().some(({ type, outlined }) => type === "gaussian" || outlined)) nameEllipses(pen, width);
}

/** Draws the circle that tokens move on, or the outline of their sphere. */
function circle(pen, { place, scale }) {
  pen.strokeStyle = palette.line;
  pen.lineWidth = 1;
  pen.beginPath();
  pen.arc(...place([0, 0, 0]), flow.scene.radius * scale, 0, 2 * Math.PI);
  pen.stroke();
}

/** Draws the dots of all tokens over the painting; `project` returns their places. */
function paintTokens(ground, ratio, project) {
  const layers = visible().filter((layer) => layer.type === "tokens");
  stage.screens.clear();
  if (!layers.length) return;
  const image = ground.getImageData(0, 0, stage.below.width, stage.below.height);
  for (const layer of layers) {
    const [, width, count] = layer.positions.steps.shape;
    layer.places ||= new Float32Array(width * count);
    positionsAt(layer, momentOf(layer), layer.places);
    const screen = project(layer, layer.places);
    stage.screens.set(layer, screen);
    const fine = screen.map((x) => x * ratio);
    const maker = colourings(layer)[stage.colouring] || byStart;
    const radius = ratio * dotRadius(count, stage.above.clientWidth, stage.above.clientHeight);
    stampDots(image, fine, count, colourOf(layer, maker), radius, (layer.sizes ??= sizesOf(layer)));
  }
  ground.putImageData(image, 0, 0);
}

/** The colours of the tokens, which change during playback only if they show norms. */
function colourOf(layer, maker) {
  if (maker === byNorm) return byNorm(layer, layer.places);
  const key = `${maker.name}${palette.dark}`;
  if (layer.colours?.key !== key) {
    const of = maker(layer);
    const count = layer.positions.steps.shape[2];
    layer.colours = { key, list: Array.from({ length: count }, (_, i) => of(i)) };
  }
  return (i) => layer.colours.list[i];
}

/** Places of tokens on the stage: x of all tokens, then y of all tokens. */
function screenOf(layer, places, { right, up, scale, x, y }) {
  const count = layer.positions.steps.shape[2];
  const width = places.length / count;
  layer.screen ||= new Float32Array(2 * count);
  const [r2, u2] = [right[2] || 0, up[2] || 0];
  for (let i = 0; i < count; i++) {
    const [a, b, c] = [places[i], places[count + i], width > 2 ? places[2 * count + i] : 0];
    layer.screen[i] = x + scale * (right[0] * a + right[1] * b + r2 * c);
    layer.screen[count + i] = y - scale * (up[0] * a + up[1] * b + u2 * c);
  }
  return layer.screen;
}

/** Draws ticks along the lower edge, at this height above it. */
function lowerTicks(pen, [low, high], across, [width, height, above]) {
  pen.textAlign = "center";
  pen.textBaseline = "alphabetic";
  for (const tick of ticks(low, high, width / 90)) {
    pen.fillText(shown(tick), across(tick), height - 6);
    pen.fillRect(across(tick), height - above, 1, 5);
  }
}

/** Draws ticks along the left and the lower edge. */
function rulers(pen, { scale, x, y, width, height }) {
  pen.fillStyle = palette.soft;
  pen.strokeStyle = palette.line;
  pen.lineWidth = 1;
  lowerTicks(pen, [(30 - x) / scale, (width - 10 - x) / scale], (tick) => x + scale * tick, [width, height, 24]);
  pen.textAlign = "left";
  for (const tick of ticks((y - height + 30) / scale, (y - 30) / scale, height / 70)) {
    pen.fillText(shown(tick), 6, y - scale * tick + 4);
  }
  pen.fillStyle = palette.ink;
  pen.textAlign = "right";
  pen.fillText(flow.scene.axes[0], width - 6, height - 26);
  pen.textAlign = "left";
  pen.fillText(flow.scene.axes[1], 6, 16);
}

/** Draws the coordinate axes in a corner, numbered if their names are long, and a scale bar. */
function tripod(pen, { right, up, scale, height, width }) {
  const [x, y, size] = width < 500 ? [60, height - 44, 22] : [76, height - 62, 34];
  pen.strokeStyle = palette.soft;
  pen.lineWidth = 1.5;
  pen.textAlign = "center";
  const { axes } = flow.scene;
  const isLong = axes.some((name) => pen.measureText(name).width > size);
  axes.forEach((name, k) => {
    pen.beginPath();
    pen.moveTo(x, y);
    pen.lineTo(x + size * right[k], y - size * up[k]);
    pen.stroke();
    const place = [x + 1.45 * size * right[k], y - 1.45 * size * up[k]];
    haloed(pen, palette, isLong ? String(k + 1) : name, place, palette.ink);
    pen.strokeStyle = palette.soft;
    pen.lineWidth = 1.5;
  });
  pen.textAlign = "left";
  if (isLong) axes.forEach((name, k) => haloed(pen, palette, name, [8, 16 + 17 * k], palette.ink));
  const length = ticks(0, (0.25 * width) / scale, 2).pop();
  if (!length) return;
  pen.fillStyle = palette.soft;
  pen.fillRect(width - 14 - scale * length, height - 12, scale * length, 2);
  pen.textAlign = "right";
  pen.fillText(shown(length), width - 14, height - 22);
}
