// Exponentials of many numbers that are not positive: Math.exp leaves the compiled code for each.

const LOWEST = -708; // exponentials of smaller numbers are below the smallest normal number
const PARTS = 32; // number of tabulated fractions of a factor of two
const STEP_HIGH = 6.93147180369123816490e-1 / PARTS; // ln 2 in two parts, so that its multiples are exact
const STEP_LOW = 1.90821492927058770002e-10 / PARTS;
const RATE = PARTS * Math.LOG2E;
const FRACTIONS = Float64Array.from({ length: PARTS }, (_, j) => 2 ** (-j / PARTS));
const POWERS = Float64Array.from({ length: 1024 }, (_, k) => 2 ** -k);

/** Replaces the first `count` numbers `x` of a row by `exp(x - top)`, `top` the largest; their sum.
 *
 * Taylor's polynomial of degree 6 on |r| ≤ ln 2 / 64, times two tabulated powers of two. */
export function exponentials(row, count, top) {
  let sum = 0;
  for (let j = 0; j < count; j++) {
    const x = row[j] - top;
    let value = x < LOWEST ? 0 : NaN;
    if (x >= LOWEST) {
      const k = (0.5 - x * RATE) | 0;
      const r = x + k * STEP_HIGH + k * STEP_LOW;
      const tail = 0.5 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r / 720)));
      const scale = FRACTIONS[k & (PARTS - 1)] * POWERS[k >> 5];
      value = scale + scale * (r + r * r * tail);
    }
    row[j] = value;
    sum += value;
  }
  return sum;
}
