// Drawing functions that all pictures share: colours, frames, ticks, text with a halo.

import { haloed } from "../../plotting/pages/palette.js";
import { shown, ticks } from "../../plotting/pages/scales.js";

const SIZE = 12; // font size of text, in pixels

/** Begins drawing in a box and clips everything to it. */
export function clipped(pen, box, draw) {
  pen.save();
  pen.beginPath();
  pen.rect(box.x, box.y, box.width, box.height);
  pen.clip();
  draw();
  pen.restore();
}

/** Writes text with a halo, legible over lines. */
export function write(pen, palette, words, x, y, { align = "left", colour = palette.soft, size = SIZE } = {}) {
  pen.font = `${size}px ${palette.font}`;
  pen.textAlign = align;
  haloed(pen, palette, words, [x, y], colour);
}

/** About this many round numbers in an interval; at least two are far enough from the ends to be written. */
export function several(low, high, count) {
  const inner = (x) => x > low + 0.15 * (high - low) && x < high - 0.1 * (high - low);
  const marks = ticks(low, high, Math.max(2, Math.round(count)));
  return marks.filter(inner).length > 1 ? marks : ticks(low, high, 8);
}

/** Lines at round numbers, which end before the numbers at the left and lower edges, and the names of both axes.
 *
 * Gives the place where the numbers at the left end. */
export function grid(pen, palette, box, across, up) {
  const edge = box.y + box.height - 10;
  const right = box.x + box.width;
  const columns = several(across.low, across.high, box.width / 110).map((value) => ({ words: shown(value), x: across.place(value) }));
  const rows = several(up.low, up.high, box.height / 90)
    .map((value) => ({ words: shown(value), y: up.place(value) }))
    .filter(({ y }) => y > box.y + 24 && y < edge - 14);
  pen.font = `${SIZE}px ${palette.font}`;
  const left = box.x + 10 + Math.max(24, ...rows.map(({ words }) => pen.measureText(words).width));
  pen.strokeStyle = palette.line;
  pen.lineWidth = 1;
  pen.beginPath();
  for (const { x } of columns) if (x > left) lined(pen, [x, box.y], [x, edge - 8]);
  for (const { y } of rows) lined(pen, [left, y], [right, y]);
  pen.stroke();
  for (const { words, x } of columns) {
    if (x > box.x + 44 && x < right - 40) write(pen, palette, words, x, edge, { align: "center" });
  }
  for (const { words, y } of rows) write(pen, palette, words, box.x + 6, y);
  write(pen, palette, across.name, right - 8, edge, { align: "right", colour: palette.ink });
  write(pen, palette, up.name, box.x + 6, box.y + 14, { colour: palette.ink });
  return left;
}

/** Draws a line aligned with the pixels of the screen. */
function lined(pen, ...points) {
  const [from, to] = points.map((point) => point.map((x) => Math.round(x) + 0.5));
  pen.moveTo(...from);
  pen.lineTo(...to);
}

/** Draws the legend of a picture in rows from its upper edge; entries are `{ words, fill }`, with a colour and its opacity, or `{ words, stroke, dash }`.
 *
 * Gives the height of the next row. */
export function legend(pen, palette, { box, left }, entries) {
  let [x, y] = [left, box.y + 14];
  pen.font = `${SIZE}px ${palette.font}`;
  for (const { words, fill, stroke, dash = [] } of entries) {
    const width = 25 + pen.measureText(words).width;
    if (x > left && x + width > box.x + box.width) [x, y] = [left, y + 18];
    pen.globalAlpha = fill ? fill.alpha : 1;
    pen.beginPath();
    if (fill) {
      pen.fillStyle = fill.colour;
      pen.fillRect(x, y - 6, 16, 12);
    } else {
      pen.strokeStyle = stroke;
      pen.lineWidth = 1.6;
      pen.setLineDash(dash);
      pen.moveTo(x, y);
      pen.lineTo(x + 20, y);
      pen.stroke();
      pen.setLineDash([]);
    }
    write(pen, palette, words, x + 25, y, { colour: palette.ink });
    x += width + 12;
  }
  return y + 18;
}

export function disc(pen, x, y, radius) {
  pen.moveTo(x + radius, y);
  pen.arc(x, y, radius, 0, 2 * Math.PI);
}

/** Draws a handle: a ring that is visible on any background. */
export function handle(pen, palette, [x, y], held) {
  pen.beginPath();
  disc(pen, x, y, held ? 9 : 7);
  pen.fillStyle = palette.paper;
  pen.fill();
  pen.strokeStyle = palette.focus;
  pen.lineWidth = held ? 3.5 : 2.5;
  pen.stroke();
}
