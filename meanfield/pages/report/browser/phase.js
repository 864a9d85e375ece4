// A phase diagram: cells are coloured by a quantity; cells without it have a pale colour of their ending.

const EDGE = { left: 64, right: 14, top: 12, bottom: 46 };
const phase = { canvas: byId("phase"), scene: null, number: "ending", cell: [], rows: new Map() };

/** The indices of the axes that are drawn: two of them, or the only one. */
const drawn = () => (phase.scene.axes.length === 1 ? [0] : [phase.across, phase.along]);
const countOf = (k) => phase.scene.axes[k].values.length;

function endingOf(indices) {
  return phase.rows.get(phase.scene.ending.data[flatten(phase.scene.shape, indices)]);
}

function numberOf(name, indices) {
  return name === "ending" ? NaN : phase.scene.numbers[name].data[flatten(phase.scene.shape, indices)];
}

/** The least and largest value of the shown quantity over all cells; logarithmic if decades apart. */
function rangeOfCells() {
  if (phase.number === "ending") return null;
  const finite = Array.from(phase.scene.numbers[phase.number].data).filter(Number.isFinite);
  if (!finite.length) return null;
  const [low, high] = finite.reduce(([a, b], x) => [Math.min(a, x), Math.max(b, x)], [Infinity, -Infinity]);
  return { low, high, log: low > 0 && high > 100 * low };
}

function shareOf(value, { low, high, log }) {
  if (high === low) return 0.5;
  return log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
}

function layout() {
  const { clientWidth: width, clientHeight: height } = phase.canvas;
  const [across, along] = drawn();
  const columns = countOf(across);
  const rows = along === undefined ? 1 : countOf(along);
  const inner = [width - EDGE.left - EDGE.right, height - EDGE.top - EDGE.bottom];
  return { width, height, across, along, columns, rows, side: [inner[0] / columns, inner[1] / rows], inner };
}

function indicesAt(column, row) {
  const indices = [...phase.cell];
  const [across, along] = drawn();
  indices[across] = column;
  if (along !== undefined) indices[along] = row;
  return indices;
}

function paintPhase() {
  const place = { ...penOf(phase.canvas), ...layout() };
  const range = rangeOfCells();
  for (let column = 0; column < place.columns; column++) {
    for (let row = 0; row < place.rows; row++) paintCell(place, column, row, range);
  }
  paintBorders(place);
  paintAxis(place, 0);
  if (place.along !== undefined) paintAxis(place, 1);
  const [x, y] = cornerOf(place, phase.cell[place.across], place.along === undefined ? 0 : phase.cell[place.along]);
  place.pen.strokeStyle = palette.ink;
  place.pen.lineWidth = 3;
  place.pen.strokeRect(x, y, ...place.side);
  legend(range);
  tellCell();
}

const cornerOf = ({ side, rows }, column, row) => [EDGE.left + side[0] * column, EDGE.top + side[1] * (rows - 1 - row)];

function paintCell(place, column, row, range) {
  const indices = indicesAt(column, row);
  const value = numberOf(phase.number, indices);
  const [x, y] = cornerOf(place, column, row);
  const colour = range && Number.isFinite(value) ? css(graded(shareOf(value, range))) : tintOf(endingOf(indices));
  place.pen.fillStyle = colour;
  const [left, top] = [Math.round(x), Math.round(y)]; // whole pixels leave no seams between cells
  place.pen.fillRect(left, top, Math.round(x + place.side[0]) - left, Math.round(y + place.side[1]) - top);
}

/** Draws lines between cells with different endings. */
function paintBorders(place) {
  const { pen, side } = place;
  pen.strokeStyle = palette.ink;
  pen.lineWidth = 1.3;
  pen.beginPath();
  for (let column = 0; column < place.columns; column++) {
    for (let row = 0; row < place.rows; row++) {
      const here = endingOf(indicesAt(column, row));
      const [x, y] = cornerOf(place, column, row);
      if (column + 1 < place.columns && endingOf(indicesAt(column + 1, row)) !== here) {
        pen.moveTo(x + side[0], y);
        pen.lineTo(x + side[0], y + side[1]);
      }
      if (row + 1 < place.rows && endingOf(indicesAt(column, row + 1)) !== here) {
        pen.moveTo(x, y);
        pen.lineTo(x + side[0], y);
      }
    }
  }
  pen.stroke();
}

function paintAxis({ pen, width, height, across, along, side, inner, rows }, which) {
  const axis = phase.scene.axes[which ? along : across];
  const count = axis.labels.length;
  const every = Math.max(1, Math.ceil(count / (which ? inner[1] / 26 : inner[0] / 62)));
  pen.fillStyle = palette.soft;
  pen.textBaseline = "middle";
  pen.textAlign = which ? "right" : "center";
  for (let i = 0; i < count; i += every) {
    const label = Number.isFinite(Number(axis.values[i])) ? shown(Number(axis.values[i]), 3) : axis.labels[i].slice(0, 12);
    if (which) pen.fillText(label, EDGE.left - 6, EDGE.top + side[1] * (rows - i - 0.5));
    else pen.fillText(label, EDGE.left + side[0] * (i + 0.5), height - EDGE.bottom + 14);
  }
  pen.fillStyle = palette.ink;
  if (which) {
    pen.save();
    pen.translate(12, EDGE.top + inner[1] / 2);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "center";
    pen.fillText(axis.name, 0, 0);
    pen.restore();
  } else pen.fillText(axis.name, EDGE.left + inner[0] / 2, height - 10);
}

const tintOf = (row) => css(legible(parsed(row.colour)), 0.35);

/** Whether the cell with this index in the table has a value that a colour can show. */
const isGraded = (i) => phase.number !== "ending" && Number.isFinite(phase.scene.numbers[phase.number].data[i]);

/** Draws the legend: the colour scale of the quantity, and the tint of each ending without a value. */
function legend(range) {
  byId("scale").hidden = !range;
  if (range) {
    const { pen, width, height } = penOf(byId("bar"));
    gradedBar(pen, width, height);
    byId("low").textContent = `${nameOfNumber(phase.number)} from ${shown(range.low)}`;
    byId("high").textContent = `to ${shown(range.high)}${range.log ? " (logarithmic)" : ""}`;
  }
  const codes = new Set(phase.scene.ending.data.filter((_, i) => !(range && isGraded(i))));
  byId("endings").replaceChildren(...[...codes].map((code) => {
    const row = phase.rows.get(code);
    const entry = element("span", {}, row.label);
    entry.style.borderColor = tintOf(row);
    return entry;
  }));
}

/** The name of a quantity, as in figures. */
const nameOfNumber = (name) => phase.scene.labels[name];

/** Text of a quantity of a cell: its value, or why there is none. */
function numberWords(name, indices) {
  const value = numberOf(name, indices);
  if (Number.isFinite(value)) return shown(value, 6);
  const row = endingOf(indices);
  const stop = phase.scene.numbers.stop_time ? numberOf("stop_time", indices) : NaN;
  if (name === "t_star" && row.censored) return `no blow-up before ${Number.isFinite(stop) ? `t = ${shown(stop)}` : "the end"}`;
  return row.name === "blow-up" && !name.startsWith("t_star") ? "infinite at the blow-up" : "–";
}

function tellCell() {
  const indices = phase.cell;
  const values = phase.scene.axes.map((axis, k) => `${axis.name} = ${axis.labels[indices[k]]}`).join(", ");
  const row = endingOf(indices);
  byId("cell-name").textContent = values;
  const facts = [["ending", `${row.label}: ${row.reason}`], ...Object.keys(phase.scene.numbers).map((name) => [nameOfNumber(name), numberWords(name, indices)])];
  byId("cell-facts").replaceChildren(...facts.map(([name, words]) => {
    const line = element("tr");
    line.append(element("th", { scope: "row" }, name), element("td", {}, words));
    return line;
  }));
  byId("cell-recipe").textContent = commandsOf(phase.scene, indices);
  const number = phase.number === "ending" ? "" : `, ${nameOfNumber(phase.number)}: ${numberWords(phase.number, indices)}`;
  byId("status").textContent = `${values}: ${row.label}${number}`;
  history.replaceState(null, "", `#cell=${indices.join(",")}`);
}

function cellAt(event) {
  const frame = phase.canvas.getBoundingClientRect();
  const { side, columns, rows } = layout();
  const column = Math.floor((event.clientX - frame.left - EDGE.left) / side[0]);
  const row = rows - 1 - Math.floor((event.clientY - frame.top - EDGE.top) / side[1]);
  return column >= 0 && column < columns && row >= 0 && row < rows ? indicesAt(column, row) : null;
}

function hover(event) {
  const indices = cellAt(event);
  byId("tip").hidden = !indices;
  if (!indices) return;
  const values = phase.scene.axes.map((axis, k) => `${axis.name} = ${axis.labels[indices[k]]}`);
  const number = phase.number === "ending" ? [] : [`${nameOfNumber(phase.number)}: ${numberWords(phase.number, indices)}`];
  byId("tip").textContent = [...values, endingOf(indices).label, ...number].join("\n");
  const frame = phase.canvas.getBoundingClientRect();
  byId("tip").style.left = `${Math.min(event.clientX - frame.left + 12, frame.width - byId("tip").offsetWidth - 4)}px`;
  byId("tip").style.top = `${event.clientY - frame.top + 14}px`;
}

function chooseCell(indices) {
  if (!indices) return;
  phase.cell = indices;
  paintPhase();
}

function moveCell(event) {
  const [across, along] = drawn();
  const moves = { ArrowLeft: [across, -1], ArrowRight: [across, 1], ArrowDown: [along, -1], ArrowUp: [along, 1] };
  const move = moves[event.key];
  if (!move || move[0] === undefined) return;
  event.preventDefault();
  const indices = [...phase.cell];
  indices[move[0]] = Math.min(Math.max(indices[move[0]] + move[1], 0), countOf(move[0]) - 1);
  chooseCell(indices);
}

function readyPhase() {
  byId("choices").replaceChildren();
  const names = ["ending", ...Object.keys(phase.scene.numbers)];
  listOf("Colour", names.map((name) => [name, nameOfNumber(name)]), phase.number, (name) => {
    phase.number = name;
    paintPhase();
  });
  const axes = phase.scene.axes;
  if (axes.length > 2) {
    for (const which of ["across", "along"]) {
      listOf(which === "across" ? "Across" : "Upwards", axes.map(({ name }, k) => [String(k), name]), String(phase[which]), (key) => {
        const other = which === "across" ? "along" : "across";
        if (Number(key) === phase[other]) phase[other] = phase[which];
        phase[which] = Number(key);
        readyPhase();
        paintPhase();
      });
    }
  }
  axes.forEach((axis, k) => {
    if (drawn().includes(k)) return;
    listOf(axis.name, axis.labels.map((label, i) => [String(i), label]), String(phase.cell[k]), (key) => {
      phase.cell[k] = Number(key);
      paintPhase();
    });
  });
}

async function showSweep(told) {
  const older = phase.scene;
  phase.scene = await unpacked(told);
  phase.rows = new Map(phase.scene.endings.map((row) => [row.code, row]));
  if (!older) {
    const asked = (/^#cell=([\d,]+)$/.exec(location.hash)?.[1] || "").split(",").map(Number);
    const fits = asked.length === phase.scene.shape.length && asked.every((i, k) => i < phase.scene.shape[k]);
    phase.cell = fits ? asked : phase.scene.shape.map(() => 0);
    phase.number = phase.scene.shown;
    [phase.across, phase.along] = [0, 1];
  }
  readyPhase();
  paintPhase();
  performance.mark("first picture");
}

takePalette();
phase.canvas.addEventListener("pointermove", hover);
phase.canvas.addEventListener("pointerleave", () => (byId("tip").hidden = true));
phase.canvas.addEventListener("click", (event) => chooseCell(cellAt(event)));
phase.canvas.addEventListener("keydown", moveCell);
byId("save").addEventListener("click", () => download(phase.canvas, "phase.png"));
new ResizeObserver(() => phase.scene && paintPhase()).observe(phase.canvas);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  takePalette();
  if (phase.scene) paintPhase();
});
const told = JSON.parse(byId("data").textContent);
const adopt = (page) => showSweep(page.scene);
showSweep(told);
