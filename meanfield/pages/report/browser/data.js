// Decoding of the numbers in the page to typed arrays; tests in Node use this module too.

/** The inflated bytes of a text in base64. */
async function inflated(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

/** 16-bit integers from their zigzag-encoded second differences, with low bytes before high ones. */
function summed(planes, frames) {
  const count = planes.length / 2;
  const row = count / frames;
  const values = new Uint16Array(count);
  for (let i = 0; i < count; i++) {
    const folded = planes[i] | (planes[count + i] << 8);
    const residual = (folded >>> 1) ^ -(folded & 1);
    const last = i < row ? 0 : values[i - row];
    const before = i < 2 * row ? last : values[i - 2 * row];
    values[i] = residual + 2 * last - before; // modulo 2^16
  }
  return values;
}

/** The JSON value in which each packed array is replaced by `{ data, shape }`. */
async function unpacked(value) {
  if (Array.isArray(value)) return typeof value[0] === "object" ? Promise.all(value.map(unpacked)) : value;
  if (value === null || typeof value !== "object") return value;
  if ("packed" in value) return unpackedArray(value);
  const entries = Object.entries(value).map(async ([name, part]) => [name, await unpacked(part)]);
  return Object.fromEntries(await Promise.all(entries));
}

async function unpackedArray({ packed, shape, bytes }) {
  const buffer = await inflated(bytes);
  if (packed === "f8") return { data: new Float64Array(buffer), shape };
  if (packed === "u2") return { data: new Uint16Array(buffer), shape };
  return { data: summed(new Uint8Array(buffer), shape[0]), shape };
}

/** Row `i` of an array, of `width` numbers, interpolated between frames. */
function between({ data }, width, { low, next, share }) {
  return Array.from({ length: width }, (_, k) => (1 - share) * data[low * width + k] + share * data[next * width + k]);
}

/** Writes all positions (coord, token) of a layer of tokens, interpolated between frames, to `out`. */
function positionsAt(layer, moment, out) {
  const { low, step, steps } = layer.positions;
  const [, width, count] = steps.shape;
  for (let k = 0; k < width; k++) {
    const [a, b] = [moment.low * width + k, moment.next * width + k];
    const [fromA, fromB] = [a * count, b * count];
    const shareA = 1 - moment.share;
    const offset = shareA * low.data[a] + moment.share * low.data[b];
    const [stepA, stepB] = [shareA * step.data[a], moment.share * step.data[b]];
    for (let i = 0; i < count; i++) {
      out[k * count + i] = offset + stepA * steps.data[fromA + i] + stepB * steps.data[fromB + i];
    }
  }
  return out;
}
