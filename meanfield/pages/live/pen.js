// What all pictures share: colours of the scheme, frames, ticks, words with a halo.

import { shown, ticks } from "./view.js";

/** Opens a box: what is drawn in it stays in it. */
export function clipped(pen, box, draw) {
  pen.save();
  pen.beginPath();
  pen.rect(box.x, box.y, box.width, box.height);
  pen.clip();
  draw();
  pen.restore();
}

/** Words with a halo, so that they are read over lines. */
export function write(pen, palette, words, x, y, { align = "left", colour = palette.soft, size = 12 } = {}) {
  pen.font = `${size}px ${palette.font}`;
  pen.textAlign = align;
  pen.textBaseline = "middle";
  pen.strokeStyle = palette.paper;
  pen.lineWidth = 4;
  pen.lineJoin = "round";
  pen.globalAlpha = 0.8;
  pen.strokeText(words, x, y);
  pen.globalAlpha = 1;
  pen.fillStyle = colour;
  pen.fillText(words, x, y);
}

/** Round numbers between two, about so many; at least two of them so far from the ends that they are written: a scale. */
export function several(low, high, count) {
  const inner = (x) => x > low + 0.15 * (high - low) && x < high - 0.1 * (high - low);
  const marks = ticks(low, high, Math.max(2, Math.round(count)));
  return marks.filter(inner).length > 1 ? marks : ticks(low, high, 8);
}

/** Lines at round numbers, with the numbers at the left and lower edges. */
export function grid(pen, palette, box, across, up) {
  pen.strokeStyle = palette.line;
  pen.lineWidth = 1;
  pen.beginPath();
  const columns = several(across.low, across.high, box.width / 110);
  const rows = several(up.low, up.high, box.height / 90);
  for (const value of columns) {
    const x = Math.round(across.place(value)) + 0.5;
    pen.moveTo(x, box.y);
    pen.lineTo(x, box.y + box.height);
  }
  for (const value of rows) {
    const y = Math.round(up.place(value)) + 0.5;
    pen.moveTo(box.x, y);
    pen.lineTo(box.x + box.width, y);
  }
  pen.stroke();
  const edge = box.y + box.height - 10;
  for (const value of columns) {
    const x = across.place(value);
    if (x > box.x + 44 && x < box.x + box.width - 20) write(pen, palette, shown(value), x, edge, { align: "center" });
  }
  for (const value of rows) {
    const y = up.place(value);
    if (y > box.y + 12 && y < edge - 14) write(pen, palette, shown(value), box.x + 6, y);
  }
}

export function disc(pen, x, y, radius) {
  pen.moveTo(x + radius, y);
  pen.arc(x, y, radius, 0, 2 * Math.PI);
}

/** A handle to be dragged: a ring that is seen on any ground. */
export function handle(pen, palette, [x, y], held) {
  pen.beginPath();
  disc(pen, x, y, held ? 9 : 7);
  pen.fillStyle = palette.paper;
  pen.fill();
  pen.strokeStyle = palette.focus;
  pen.lineWidth = held ? 3.5 : 2.5;
  pen.stroke();
}
