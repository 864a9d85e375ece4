// Colours of the page, of tokens, and of numbers.

const SEQUENCE = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99], [170, 220, 50], [220, 227, 25]];
const CATEGORIES = [[0, 114, 178], [213, 94, 0], [0, 158, 115], [204, 121, 167], [230, 159, 0], [86, 180, 233]];
const NO_CLUSTER = 65535;

const palette = {};
const takePalette = () => Object.assign(palette, readPalette());

/** A colour that stands out from the page. */
const legible = (colour) => contrasted(colour, palette.dark);

/** The colour of a sequential map for a number from 0 to 1. */
function graded(share) {
  const ends = palette.dark ? [0.15, 1] : [0, 0.9]; // leaves out shades too close to the page's colour
  const place = (ends[0] + (ends[1] - ends[0]) * Math.min(Math.max(share, 0), 1)) * (SEQUENCE.length - 1);
  const low = Math.min(Math.floor(place), SEQUENCE.length - 2);
  return SEQUENCE[low].map((x, i) => x + (place - low) * (SEQUENCE[low + 1][i] - x));
}

function hued(turn, lightness) {
  const channel = (n) => {
    const k = (n + turn * 12) % 12;
    return 255 * (lightness - 0.75 * Math.min(lightness, 1 - lightness) * Math.max(-1, Math.min(k - 3, 9 - k, 1)));
  };
  return [channel(0), channel(8), channel(4)];
}

function category(index) {
  if (index === NO_CLUSTER) return [128, 128, 128];
  if (index < CATEGORIES.length) return legible(CATEGORIES[index]);
  return hued((index * 0.618034) % 1, palette.dark ? 0.7 : 0.4);
}

/** The quantities that colours of tokens can show, by name. */
function colourings(layer) {
  const known = { start: byStart, cluster: byCluster, norm: byNorm };
  if (layer.position) known.position = byPosition;
  return { ...known, none: plainly };
}

/** Colours by the initial coordinate along the first axis, from the least to the largest. */
function byStart(layer) {
  const [low, high] = firstAxis(layer);
  return (i) => graded((layer.first[i] - low) / (high - low || 1));
}

/** The least and largest initial coordinate along the first axis. */
function firstAxis(layer) {
  const [, width, count] = layer.positions.steps.shape;
  layer.first ??= positionsAt(layer, { low: 0, next: 0, share: 0 }, new Float64Array(width * count)).slice(0, count);
  return [layer.first.reduce((a, b) => Math.min(a, b)), layer.first.reduce((a, b) => Math.max(a, b))];
}

function plainly() {
  const colour = legible([0, 114, 178]);
  return () => colour;
}

const byCluster = (layer) => (i) => category(layer.clusters.data[i]);

function byPosition(layer) {
  const places = layer.position.data;
  const [low, high] = [Math.min(...places), Math.max(...places)];
  return (i) => graded((places[i] - low) / (high - low || 1));
}

/** Colours by the norm of each token, as a share of the current largest norm. */
function byNorm(layer, places) {
  const largest = largestNorm(layer) || 1;
  return (i) => graded(normOf(layer, places, i) / largest);
}

/** The norm of a token at its current position. */
function normOf(layer, places, i) {
  const count = layer.positions.steps.shape[2];
  let sum = 0;
  for (let k = i; k < places.length; k += count) sum += places[k] ** 2;
  return Math.sqrt(sum);
}

/** The current largest norm. */
function largestNorm(layer) {
  const count = layer.positions.steps.shape[2];
  let largest = 0;
  for (let i = 0; i < count; i++) largest = Math.max(largest, normOf(layer, layer.places, i));
  return largest;
}
