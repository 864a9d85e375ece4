// Detection of rest: from the decay of the speed, whether the remaining distance is negligible.

const WINDOW = 8; // number of accepted steps over which a decay rate is measured
const E_FOLDS = 2; // number of e-folds by which the speed must fall while the criterion holds

/** Ends the flow if the remaining distance is below `rtol` times the initial size, as `Steady` does in Python. */
export class Steady {
  constructor(rtol, t, size, speed, span) {
    Object.assign(this, { rtol, span, scale: size > 0 ? size : 1, held: 1, entered: Infinity });
    this.ts = new Array(WINDOW).fill(t);
    this.logs = new Array(WINDOW).fill(Math.log(speed));
  }

  after(t, speed) {
    this.ts = [...this.ts.slice(1), t];
    this.logs = [...this.logs.slice(1), Math.log(speed)];
    const last = this.logs[WINDOW - 1];
    const calm = speed * this.span <= 10 * Number.EPSILON * this.scale;
    const still = calm && last <= this.logs[0];
    const near = still || speed * timeLeft(this.ts, this.logs) <= this.rtol * this.scale;
    const full = this.held + 1 >= WINDOW;
    const begun = this.entered === Infinity ? last : this.entered;
    this.entered = near && full ? begun : Infinity;
    this.held = Math.min(this.held + 1, WINDOW);
    return near && full && (still || this.entered - last >= E_FOLDS);
  }
}

/** The remaining distance divided by the speed: `τ/(1 - q)` with the decay time `τ` and its rate of change `q`. */
function timeLeft(ts, logs) {
  const half = WINDOW / 2;
  const parts = [[0, half - 1], [half, WINDOW - 1]].map(([a, b]) => ({
    tau: (ts[b] - ts[a]) / (logs[a] - logs[b]), fall: logs[a] - logs[b], middle: (ts[a] + ts[b]) / 2,
  }));
  const q = Math.max((parts[1].tau - parts[0].tau) / (parts[1].middle - parts[0].middle), 0);
  const decays = parts.every(({ fall }) => fall > 0) && q < 1;
  return decays ? parts[1].tau / (1 - q) : Infinity;
}
