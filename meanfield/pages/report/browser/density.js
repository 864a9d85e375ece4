// Densities on the cells of a moving box: an image in the plane, a graph on the line.

const cellImages = new WeakMap(); // maps each layer to a canvas and to the cell of each pixel

/** The cell under each of `count` equal parts of an axis. */
function cellsAlong(edges, count) {
  const [first, last] = [edges[0], edges[edges.length - 1]];
  let cell = 0;
  return Uint16Array.from({ length: count }, (_, i) => {
    const place = first + ((last - first) * (i + 0.5)) / count;
    while (cell + 2 < edges.length && edges[cell + 1] < place) cell++;
    return cell;
  });
}

function cellImage(layer) {
  if (!cellImages.has(layer)) {
    const sides = layer.cells.map((count) => Math.min(count, 512));
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = sides;
    const along = layer.edges.map((edges, k) => cellsAlong(edges, sides[k]));
    cellImages.set(layer, { canvas, along, image: new ImageData(sides[0], sides[1]) });
  }
  return cellImages.get(layer);
}

/** The averages over cells at a time between frames, and the largest of them. */
function densityAt(layer, { low, next, share }) {
  const count = layer.shares.data.length / layer.shares.shape[0];
  const factors = [((1 - share) * layer.peaks.data[low]) / 65535, (share * layer.peaks.data[next]) / 65535];
  const values = new Float64Array(count);
  let peak = 0;
  for (let i = 0; i < count; i++) {
    values[i] = factors[0] * layer.shares.data[low * count + i] + factors[1] * layer.shares.data[next * count + i];
    peak = Math.max(peak, values[i]);
  }
  return { values, peak };
}

/** Paints a density in the plane; empty cells keep the colour of the page. */
function paintDensity(pen, layer, moment, view) {
  const { canvas, along, image } = cellImage(layer);
  const { values, peak } = densityAt(layer, moment);
  const rows = layer.cells[1];
  const [width, height] = [canvas.width, canvas.height];
  for (let v = 0; v < height; v++) {
    for (let u = 0; u < width; u++) {
      const share = Math.sqrt(values[along[0][u] * rows + along[1][v]] / (peak || 1));
      const colour = graded(palette.dark ? share : 1 - share);
      const at = 4 * (v * width + u);
      [image.data[at], image.data[at + 1], image.data[at + 2]] = colour;
      image.data[at + 3] = 255 * Math.min(1, 3 * share);
    }
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  const [ends0, ends1] = layer.edges.map((edges) => [edges[0], edges[edges.length - 1]]);
  const axes = between(layer.axes, 4, moment).map((x) => x * view.scale);
  const steps = [(ends0[1] - ends0[0]) / width, (ends1[1] - ends1[0]) / height];
  const corner = view.place(cellPlace(layer, moment, [ends0[0], ends1[0]]));
  pen.save();
  pen.transform(axes[0] * steps[0], -axes[2] * steps[0], axes[1] * steps[1], -axes[3] * steps[1], ...corner);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(canvas, 0, 0);
  pen.restore();
}

/** The graph of a density on the line: positions of cell edges, and the heights between them. */
function stairs(layer, moment) {
  const { values, peak } = densityAt(layer, moment);
  const places = layer.edges[0].map((xi) => cellPlace(layer, moment, [xi])[0]);
  return { places, heights: values, peak };
}

/** The density of a Gaussian on the line at `x`. */
function bell(x, mean, variance) {
  return Math.exp(-((x - mean) ** 2) / (2 * variance)) / Math.sqrt(2 * Math.PI * variance);
}

/** Shares of the tokens' weight on the line, in equal bins. */
function histogram(layer, places, low, high, bins) {
  const heights = new Float64Array(bins);
  const count = places.length;
  for (let i = 0; i < count; i++) {
    const bin = Math.floor(((places[i] - low) / (high - low)) * bins);
    if (bin >= 0 && bin < bins) heights[bin] += (layer.weights ? layer.weights.data[i] : 1 / count) * (bins / (high - low));
  }
  return { places: Array.from({ length: bins + 1 }, (_, i) => low + ((high - low) * i) / bins), heights, peak: Math.max(...heights) };
}
