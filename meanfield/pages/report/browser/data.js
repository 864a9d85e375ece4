// From the numbers in the page to typed arrays; the tests read them in Node by the same lines.

/** The bytes that a text in base64 holds, inflated. */
async function inflated(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

/** Numbers of 16 bits from their folded second differences, low bytes before high ones. */
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

/** A value of JSON in which every packed array is `{ data, shape }`. */
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

/** Row `i` of an array, `width` numbers long, between its frames. */
function between({ data }, width, { low, next, share }) {
  return Array.from({ length: width }, (_, k) => (1 - share) * data[low * width + k] + share * data[next * width + k]);
}

/** All positions (coord, token) of a layer of tokens between its frames, into `out`. */
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
