// Flows on the line: graphs of densities, and tokens at a height equal to the share of weight that started to their left.

const BINS = 60;

function paintOnLine({ pen, width, height, ratio }) {
  const { centre, half } = partNow();
  const scale = (camera.zoom * (width - 40)) / (2 * half[0] || 1);
  const across = (x) => width / 2 + camera.slide[0] + scale * (x - centre[0]);
  const ground = stage.below.getContext("2d", { willReadFrequently: true });
  ground.fillStyle = palette.paper;
  ground.fillRect(0, 0, stage.below.width, stage.below.height);
  stage.view = { scale, place: ([x]) => [across(x), height / 2] };
  paintTokens(ground, ratio, (layer, places) => lineScreen(layer, places, across, height));
  const edges = [centre[0] - half[0] / camera.zoom, centre[0] + half[0] / camera.zoom];
  const graphs = visible().map((layer) => [layer, graphOf(layer, edges)]);
  const peak = Math.max(...graphs.map(([, graph]) => graph.peak));
  for (const [layer, graph] of graphs) paintGraph(pen, graph, across, (v) => height - 30 - ((height - 60) * v) / (peak || 1), inkOf(layer), layer.type === "gaussian" && graphs.length > 1);
  ruler(pen, { scale, centre: centre[0], across, width, height, peak });
}

function graphOf(layer, [low, high]) {
  const moment = momentOf(layer);
  if (layer.type === "density") return stairs(layer, moment);
  if (layer.type === "tokens") return histogram(layer, layer.places, low, high, BINS);
  const [[mean], [variance]] = [between(layer.mean, 1, moment), between(layer.covariance, 1, moment)];
  const places = Array.from({ length: 401 }, (_, i) => low + ((high - low) * i) / 400);
  const heights = places.map((x) => bell(x, mean, variance));
  return { places, heights, peak: Math.max(...heights) };
}

function paintGraph(pen, { places, heights }, across, upwards, colour, dashed) {
  pen.setLineDash(dashed ? [7, 5] : []);
  pen.strokeStyle = colour;
  pen.lineWidth = 1.8;
  pen.beginPath();
  pen.moveTo(across(places[0]), upwards(0));
  const stepped = heights.length < places.length;
  heights.forEach((height, i) => {
    pen.lineTo(across(places[i]), upwards(height));
    if (stepped) pen.lineTo(across(places[i + 1]), upwards(height));
  });
  pen.lineTo(across(places[places.length - 1]), upwards(0));
  pen.stroke();
  pen.setLineDash([]);
  pen.globalAlpha = dashed ? 0 : 0.12;
  pen.fillStyle = colour;
  pen.fill();
  pen.globalAlpha = 1;
}

/** The height of each token: the share of the weight that started to its left. */
function startShares(layer) {
  const count = layer.positions.steps.shape[2];
  const first = positionsAt(layer, { low: 0, next: 0, share: 0 }, new Float64Array(count));
  const order = Array.from(first.keys()).sort((a, b) => first[a] - first[b]);
  const shares = new Float32Array(count);
  let sum = 0;
  for (const token of order) {
    const weight = layer.weights ? layer.weights.data[token] : 1 / count;
    shares[token] = sum + weight / 2;
    sum += weight;
  }
  return shares;
}

function lineScreen(layer, places, across, height) {
  const count = places.length;
  layer.shares1 ||= startShares(layer);
  layer.screen ||= new Float32Array(2 * count);
  for (let i = 0; i < count; i++) {
    layer.screen[i] = across(places[i]);
    layer.screen[count + i] = height - 30 - (height - 60) * layer.shares1[i];
  }
  return layer.screen;
}

function ruler(pen, { scale, centre, across, width, height, peak }) {
  pen.fillStyle = palette.soft;
  const reach = width / 2 / scale;
  lowerTicks(pen, [centre - reach, centre + reach], across, [width, height, 28]);
  pen.fillStyle = palette.ink;
  pen.textAlign = "right";
  pen.fillText(flow.scene.axes[0], width - 6, height - 32);
  pen.textAlign = "left";
  const above = tokenLayer() ? "; tokens at the share of weight that began to their left" : "";
  pen.fillText(`density, up to ${shown(peak)}${above}`, 6, 16, width - 12);
}
