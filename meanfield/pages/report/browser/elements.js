// Elements of the page, and drawing contexts of canvases.

const byId = (id) => document.getElementById(id);

/** An element with attributes and text. */
function element(name, attributes = {}, text = "") {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

/** The drawing context of a canvas with the resolution of the screen, in CSS pixels. */
function penOf(canvas) {
  const ratio = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.lineCap = pen.lineJoin = "round";
  pen.font = `13px ${palette.font}`;
  return { pen, width, height, ratio };
}

/** Adds a line through places to the path of a drawing context. */
function trail(pen, places) {
  pen.beginPath();
  for (const place of places) pen.lineTo(...place);
}

/** Downloads the content of a canvas as a file. */
function download(canvas, name) {
  canvas.toBlob((blob) => {
    const link = element("a", { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}

/** Adds a labelled list to the choices of the page. */
function listOf(words, options, value, act) {
  const label = element("label", {}, `${words} `);
  const list = element("select");
  for (const [key, text] of options) list.append(element("option", { value: key }, text));
  list.value = value;
  list.addEventListener("change", () => act(list.value));
  label.append(list);
  byId("choices").append(label);
  return list;
}

/** Fills a box with the colours of the numbers from 0 to 1. */
function gradedBar(pen, width, height, top = 0) {
  for (let x = 0; x < width; x++) {
    pen.fillStyle = css(graded(x / (width - 1)));
    pen.fillRect(x, top, 1.5, height);
  }
}
