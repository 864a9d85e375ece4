// What a page's modules make of problems: in Node, and as text in a browser.

/** The velocity at the start, the flow until `t`, and the ending of the whole, of each problem. */
export function answers(given, { Flow, moved, interpolated, momentsOf }) {
  return given.map(({ problem, t }) => {
    const { start, velocity, d, weights } = moved(problem);
    const rates = new Float64Array(start.length);
    velocity(start, rates);
    const [part, middle] = [new Flow({ ...problem, t }), new Float64Array(start.length)];
    for (let step = part.step(); step; step = part.step()) {
      const share = (t / 2 - step.t0) / (step.t1 - step.t0);
      if (share > 0 && share <= 1) interpolated(step.parts, start.length, share, middle);
    }
    const half = new Flow({ ...problem, t: t / 2, rtol: problem.rtol / 100 });
    while (half.step());
    const whole = new Flow(problem);
    while (whole.step());
    const { mean, covariance } = momentsOf({ measure: problem.measure, d, weights }, part.y);
    return {
      velocity: Array.from(rates), state: Array.from(part.y), mean, covariance,
      middle: Array.from(middle), half: Array.from(half.y), ending: whole.ending, tStar: whole.tStar,
    };
  });
}

/** Mean and covariance at the end of a flow of tokens. */
export function moments(problem, { Flow, momentsOf }) {
  const flow = new Flow(problem);
  while (flow.step());
  return momentsOf({ measure: problem.measure, d: flow.d, weights: flow.weights }, flow.y);
}
