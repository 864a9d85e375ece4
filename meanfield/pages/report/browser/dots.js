// Tokens as dots, written pixel by pixel: ten thousand take a few milliseconds without a graphics card.

const FINE = 4; // number of positions within a pixel that a dot can have, along each axis
const stamps = new Map(); // maps radii to the pixels that a dot covers

/** The share of each pixel that a dot covers, for each position of the dot within a pixel. */
function stampOf(radius) {
  const key = radius.toFixed(2);
  if (!stamps.has(key)) {
    const reach = Math.ceil(radius + 1);
    const side = 2 * reach + 1;
    const masks = [];
    for (let place = 0; place < FINE * FINE; place++) masks.push(maskOf(radius, reach, (place % FINE) / FINE, Math.floor(place / FINE) / FINE));
    stamps.set(key, { masks, reach, side });
  }
  return stamps.get(key);
}

function maskOf(radius, reach, right, down) {
  const side = 2 * reach + 1;
  const mask = new Uint8Array(side * side);
  for (let row = 0; row < side; row++) {
    for (let column = 0; column < side; column++) {
      const away = Math.hypot(column - reach - right, row - reach - down);
      mask[row * side + column] = Math.round(255 * Math.min(Math.max(radius + 0.5 - away, 0), 1));
    }
  }
  return mask;
}

/** The radius in pixels of the dots of this many tokens, on a stage of this size. */
function dotRadius(count, width, height) {
  return Math.min(Math.max(0.11 * Math.sqrt((width * height) / count), 1.1), 5);
}

/** Draws a coloured dot over an image; `alpha` is from 0 to 255. */
function stampDot(image, stamp, x, y, red, green, blue, alpha) {
  const { data, width, height } = image;
  const [column, row] = [Math.floor(x), Math.floor(y)];
  const { reach, side } = stamp;
  if (column < reach || row < reach || column + reach >= width || row + reach >= height) return;
  const mask = stamp.masks[Math.floor((y - row) * FINE) * FINE + Math.floor((x - column) * FINE)];
  for (let j = 0; j < side; j++) {
    let at = 4 * ((row - reach + j) * width + column - reach);
    for (let i = 0; i < side; i++, at += 4) {
      const cover = mask[j * side + i];
      if (cover === 0) continue;
      const share = cover * alpha;
      data[at] += ((red - data[at]) * share) / 65025;
      data[at + 1] += ((green - data[at + 1]) * share) / 65025;
      data[at + 2] += ((blue - data[at + 2]) * share) / 65025;
    }
  }
}

/** Draws dots at places (x of all, then y of all); `sizes` are factors of the radius, or null. */
function stampDots(image, places, count, colour, radius, sizes) {
  const alpha = count > 3000 ? 190 : 225;
  const plain = stampOf(radius);
  for (let i = 0; i < count; i++) {
    const [red, green, blue] = colour(i);
    const stamp = sizes === null ? plain : stampOf(radius * sizes[i]);
    stampDot(image, stamp, places[i], places[count + i], red, green, blue, alpha);
  }
}

/** Factors of radii that make areas proportional to weights, rounded to halves; null without weights. */
function sizesOf(layer) {
  if (!layer.weights) return null;
  const count = layer.weights.data.length;
  return Array.from(layer.weights.data, (w) => Math.min(Math.max(Math.round(2 * Math.sqrt(w * count)) / 2, 0.5), 2.5));
}
