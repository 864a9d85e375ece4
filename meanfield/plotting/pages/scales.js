// Readable text for numbers, and ticks of axes.

export function shown(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  const text = size !== 0 && (size >= 1e5 || size < 1e-3) ? Number(value.toPrecision(digits)).toExponential() : String(Number(value.toPrecision(digits)));
  return text.replace("e+", "e").replace(/-/g, "−");
}

/** About `wanted` round numbers within an interval. */
export function ticks(low, high, wanted) {
  const raw = (high - low) / Math.max(wanted, 1);
  if (!(raw > 0) || !Number.isFinite(raw)) return [];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: Math.max(last - first + 1, 0) }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** Powers of ten within an interval, at most `wanted` of them. */
export function decades(low, high, wanted) {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  const step = Math.max(1, Math.ceil((last - first + 1) / wanted));
  const powers = [];
  for (let power = first; power <= last; power += step) powers.push(10 ** power);
  return powers;
}

/** The frame at or before a time, and the fraction of the step to the next frame. */
export function within(times, t) {
  let low = 0;
  let high = times.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (times[middle] <= t) low = middle;
    else high = middle;
  }
  if (low + 1 >= times.length) return { low, next: low, share: 0 };
  const share = (t - times[low]) / (times[low + 1] - times[low]);
  return { low, next: low + 1, share: Math.min(Math.max(share, 0), 1) };
}
