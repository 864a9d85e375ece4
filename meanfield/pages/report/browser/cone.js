// The cone of covariances (a − b, 2c, a + b), which turns under the hand.

const STRETCH = 1.25; // a unit of trace is drawn this many times as long as the others
const cone = { canvas: byId("cone"), azimuth: -1, elevation: 0.28, zoom: 1, starts: [] };

function coneView(width, height) {
  const [ca, sa] = [Math.cos(cone.azimuth), Math.sin(cone.azimuth)];
  const [ce, se] = [Math.cos(cone.elevation), Math.sin(cone.elevation)];
  const tall = STRETCH * ce + 2 * Math.abs(se);
  const scale = cone.zoom * Math.min(width / 2.7, (height - 50) / tall);
  const y = height / 2 + scale * (STRETCH * ce) / 2;
  const place = (a, b, c) => [width / 2 + scale * (ca * b - sa * a), y - scale * (ce * STRETCH * c - se * (ca * a + sa * b))];
  return { place, scale };
}

function rim(view, radius) {
  return Array.from({ length: 73 }, (_, i) => view.place(radius * Math.cos((i * Math.PI) / 36), radius * Math.sin((i * Math.PI) / 36), radius));
}

function trail(pen, places) {
  pen.beginPath();
  for (const place of places) pen.lineTo(...place);
}

function paintCone() {
  const data = flow.scene.cone;
  if (!data || !cone.canvas.clientWidth) return;
  const { pen, width, height } = penOf(cone.canvas);
  const view = coneView(width, height);
  paintGlass(pen, view);
  pen.setLineDash([5, 4]);
  pen.strokeStyle = palette.soft;
  pen.lineWidth = 1;
  trail(pen, [view.place(0, 0, 0), view.place(0, 0, 1)]);
  pen.stroke();
  pen.setLineDash([]);
  data.paths.forEach((path, i) => paintPath(pen, view, path, i));
  coneWords(pen, view, width, height);
}

/** The surface: its rings, and the two lines where it turns away from the eye. */
function paintGlass(pen, view) {
  const apex = view.place(0, 0, 0);
  const edge = rim(view, 1);
  const turn = ([x, y]) => Math.atan2(x - apex[0], apex[1] - y);
  const outer = edge.filter(([, y]) => y < apex[1]).sort((a, b) => turn(a) - turn(b));
  pen.fillStyle = `rgb(${palette.glass} / 0.1)`;
  if (outer.length > 1) {
    trail(pen, [outer[0], apex, outer[outer.length - 1]]);
    pen.fill();
  }
  trail(pen, edge);
  pen.fill();
  pen.strokeStyle = palette.edge;
  for (const ring of [...flow.scene.cone.rings.map((z) => z / flow.scene.cone.height), 1]) {
    pen.lineWidth = ring === 1 ? 1.4 : 0.6;
    trail(pen, rim(view, ring));
    pen.stroke();
  }
  if (outer.length < 2) return;
  pen.lineWidth = 1.2;
  trail(pen, [outer[0], apex, outer[outer.length - 1]]);
  pen.stroke();
}

/** The colour of a path: by its representation, else by its ending. */
function coneInk(path) {
  const inks = { points: INKS.tokens, gaussian: INKS.Gaussian, grid: INKS.density };
  return legible(inks[path.name] || parsed(path.colour));
}

/** A path up to now, boldly, and all of it, faintly; a dot at the present. */
function paintPath(pen, view, path, index) {
  const data = flow.scene.cone;
  const [first, end] = [cone.starts[index], cone.starts[index + 1]];
  const rows = data.rows.data;
  const height = data.height;
  const point = (i) => view.place(rows[4 * i] / height, rows[4 * i + 1] / height, rows[4 * i + 2] / height);
  const places = [];
  for (let i = first; i < end; i++) places.push(point(i));
  const times = Array.from({ length: end - first }, (_, i) => rows[4 * (first + i) + 3]);
  const { low, next, share } = within(times, timeAt(flow.place));
  const head = [0, 1].map((k) => (1 - share) * places[low][k] + share * places[next][k]);
  const chosen = data.paths.length === 1 || path.name !== "" || path.member === member().number;
  pen.strokeStyle = pen.fillStyle = css(coneInk(path));
  pen.globalAlpha = chosen ? 0.35 : 0.2;
  pen.lineWidth = 1;
  trail(pen, places);
  pen.stroke();
  pen.globalAlpha = chosen ? 1 : 0.5;
  pen.lineWidth = chosen ? 2.2 : 1.2;
  trail(pen, [...places.slice(0, low + 1), head]);
  pen.stroke();
  pen.beginPath();
  pen.arc(...head, chosen ? 4.5 : 2.5, 0, 2 * Math.PI);
  pen.fill();
  pen.globalAlpha = 1;
}

function coneWords(pen, view, width, height) {
  const data = flow.scene.cone;
  pen.fillStyle = palette.ink;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillText("a − b", ...view.place(1.12, 0, 1));
  pen.fillText("2c", ...view.place(0, 1.12, 1));
  const [x, y] = view.place(0, 0, 1);
  pen.fillText(`tr Σ = ${shown(data.height, 3)}`, x, y - 12);
  pen.fillStyle = palette.soft;
  pen.textAlign = "left";
  if (data.tallest > data.height) pen.fillText(`paths leave: traces go on to ${shown(data.tallest, 3)}`, 6, height - 10);
}

function readyCone() {
  const data = flow.scene.cone;
  byId("cone-part").hidden = !data;
  if (!data) return;
  cone.starts = [0];
  for (const length of data.lengths) cone.starts.push(cone.starts[cone.starts.length - 1] + length);
}

function turnCone(across, along) {
  cone.azimuth -= across;
  cone.elevation = Math.min(Math.max(cone.elevation + along, -0.2), 1.45);
  paintCone();
}
