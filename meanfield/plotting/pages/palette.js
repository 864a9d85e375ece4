// The colours of a page in the current colour scheme.

const NAMES = ["paper", "card", "ink", "soft", "line", "focus", "alarm", "glass", "edge", "start"];

/** The colours by their CSS names, whether the page is dark, and its font. */
export function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const colours = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  return { ...colours, dark, font: getComputedStyle(document.body).fontFamily };
}

/** The red, green and blue of `#rrggbb`. */
export const parsed = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

export const css = ([r, g, b], alpha = 1) => `rgb(${Math.round(r)} ${Math.round(g)} ${Math.round(b)} / ${alpha})`;

/** A colour that stands out from the page: on a dark page, it is mixed with white. */
export function contrasted(colour, dark) {
  const share = !dark ? 0 : Math.max(...colour) < 90 ? 0.75 : 0.3;
  return colour.map((x) => x + share * (255 - x));
}

/** Writes text with a halo, legible over lines and dots; returns their place. */
export function haloed(pen, palette, words, place, colour) {
  pen.textBaseline = "middle";
  pen.strokeStyle = palette.paper;
  pen.lineWidth = 4;
  pen.lineJoin = "round";
  pen.globalAlpha = 0.8;
  pen.strokeText(words, place[0], place[1]);
  pen.globalAlpha = 1;
  pen.fillStyle = colour;
  pen.fillText(words, place[0], place[1]);
  return place;
}
