// The cells of a sweep: their indices, their keys, and the commands that compute one; also used by tests in Node.

/** The index of a cell in the table, from its indices along the axes. */
const flatten = (shape, indices) => indices.reduce((flat, index, k) => flat * shape[k] + index, 0);

/** The matrix with one entry replaced. */
function withEntry(matrix, [row, column], value) {
  return matrix.map((line, i) => (i === row ? line.map((x, j) => (j === column ? value : x)) : line));
}

/** The keys of a cell: the keys of the sweep, with the value of each axis. */
function keysOf(scene, indices) {
  const keys = { ...scene.keys };
  scene.axes.forEach((axis, k) => {
    const value = axis.values[indices[k]];
    if (axis.option === undefined || axis.option === null) {
      keys[axis.key] = axis.entry ? withEntry(keys[axis.key], axis.entry, value) : value;
    } else {
      const options = { ...(keys[axis.key] || {}) };
      options[axis.option] = axis.entry ? withEntry(options[axis.option], axis.entry, value) : value;
      keys[axis.key] = options;
    }
  });
  return keys;
}

/** The keys as a TOML file, with tables at the end. */
function tomlOf(keys) {
  const tables = ["layers", "terms"].filter((name) => name in keys);
  const plain = Object.entries(keys).filter(([name]) => !tables.includes(name));
  const items = tables.flatMap((name) => keys[name].map((item) => `\n[[${name}]]\n${linesOf(Object.entries(item))}`));
  return linesOf(plain) + items.join("");
}

const linesOf = (entries) => entries.map(([name, value]) => `${name} = ${tomlValue(value)}\n`).join("");

function tomlValue(value) {
  if (Array.isArray(value)) return `[${value.map(tomlValue).join(", ")}]`;
  if (typeof value === "object") return `{${Object.entries(value).map(([name, part]) => `${name} = ${tomlValue(part)}`).join(", ")}}`;
  return JSON.stringify(value).replace(/\x7f/g, "\\u007f");
}

/** The commands that compute one cell as a separate run. */
function commandsOf(scene, indices) {
  return `cat > cell.toml <<'END'\n${tomlOf(keysOf(scene, indices))}END\nmeanfield simulate cell.toml --out cell.zarr${scene.plugins}\n`;
}
