// Tokens on a circle or a sphere: those behind the sphere are faint.

import { clipped, disc, write } from "./pen.js";
import { chosen, dots, radiusOf, trails } from "./plane.js";

const FAINT = 0.3; // opacity of tokens behind the sphere
const TIP = 1.12; // length of the axes, in radii

export function globe(pen, palette, view, scene) {
  clipped(pen, view.box, () => {
    pen.strokeStyle = palette.soft;
    pen.lineWidth = 1;
    pen.beginPath();
    disc(pen, ...view.place(0, 0), view.scale * scene.cloud.radius);
    pen.stroke();
    const names = scene.axes ? [0, 1, 2].map((k) => scene.axes.map((axis) => axis[k])) : [[1, 0, 0], [0, 1, 0]];
    names.forEach((tip, k) => axis(pen, palette, view, scene.cloud.radius, tip, `x${"₁₂₃"[k]}`));
    tokens(pen, palette, view, scene);
  });
}

function axis(pen, palette, view, radius, [x, y, z], name) {
  const tip = view.place(TIP * radius * x, TIP * radius * y);
  pen.globalAlpha = z < 0 ? FAINT : 1;
  pen.strokeStyle = palette.line;
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(...view.place(0, 0));
  pen.lineTo(...tip);
  pen.stroke();
  write(pen, palette, name, ...tip, { align: "center" });
  pen.globalAlpha = 1;
}

function tokens(pen, palette, view, scene) {
  const { cloud: { d }, state } = scene;
  const place = (i) => view.place(state[i * d], state[i * d + 1]);
  const isBehind = (i) => d === 3 && state[i * d + 2] < 0;
  const radius = radiusOf(scene.cloud);
  pen.globalAlpha = FAINT;
  dots(pen, palette, scene, radius, place, isBehind);
  pen.globalAlpha = 1;
  trails(pen, palette, view, scene);
  dots(pen, palette, scene, radius, place, (i) => !isBehind(i));
  if (scene.chosen >= 0) chosen(pen, palette, view, scene);
}
