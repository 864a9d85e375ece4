// Gaussians as ellipses of one and two standard deviations, seen from the camera.

const DEVIATIONS = [[1, 2.2], [2, 1.2]]; // numbers of standard deviations, and line widths

/** The projection of a covariance to the stage: semi-axes in units of the space, and the angle. */
function shadow(covariance, { right, up }) {
  const width = right.length;
  const form = (a, b) => a.reduce((sum, x, i) => sum + x * b.reduce((row, y, j) => row + covariance[i * width + j] * y, 0), 0);
  const [a, b, c] = [form(right, right), form(up, up), form(right, up)];
  const middle = (a + b) / 2;
  const spread = Math.hypot((a - b) / 2, c);
  const roots = [middle + spread, middle - spread].map((root) => Math.sqrt(Math.max(root, 0)));
  return { axes: roots, turn: 0.5 * Math.atan2(2 * c, a - b) };
}

/** Draws ellipses of one and two standard deviations around a mean. */
function paintEllipse(pen, layer, moment, view, colour, dashes) {
  const width = layer.mean.shape[1];
  const [x, y] = view.place(between(layer.mean, width, moment));
  const { axes, turn } = shadow(between(layer.covariance, width * width, moment), view);
  pen.strokeStyle = colour;
  pen.setLineDash(dashes);
  for (const [deviations, weight] of DEVIATIONS) {
    pen.lineWidth = weight;
    pen.beginPath();
    pen.ellipse(x, y, deviations * axes[0] * view.scale, deviations * axes[1] * view.scale, -turn, 0, 2 * Math.PI);
    pen.stroke();
  }
  pen.setLineDash([]);
}

/** Writes the legend of the two ellipses in the upper right corner. */
function nameEllipses(pen, width) {
  pen.textAlign = "left";
  DEVIATIONS.forEach(([deviations, weight], k) => {
    const x = width - 104 + 52 * k;
    pen.strokeStyle = palette.ink;
    pen.lineWidth = weight;
    trail(pen, [[x, 16], [x + 20, 16]]);
    pen.stroke();
    haloed(pen, palette, `${deviations}σ`, [x + 26, 16], palette.ink);
  });
}
