// Choices of what is shown of a flow: members, colours, heads, layers, and what the camera follows.

const COLOURS = { start: "where it began", cluster: "cluster at the end", norm: "norm", position: "position", none: "one colour" };

/** A list with a label; empty if there is no choice. */
function choice(name, words, options, value, act) {
  if (options.length > 1) listOf(words, options, value, act).id = `choose-${name}`;
}

function readyChoices() {
  byId("choices").replaceChildren();
  const layer = member().layers.find(({ type }) => type === "tokens");
  const known = layer ? Object.keys(colourings(layer)) : [];
  if (layer && !known.includes(stage.colouring)) stage.colouring = layer.colouring;
  choice("member", "Member", flow.scene.together ? [] : flow.scene.members.map(({ label, ending }, i) => [String(i), `${label}: ${ending}`]), String(flow.member), chooseMember);
  choice("colour", "Colour", known.map((key) => [key, COLOURS[key]]), stage.colouring, (key) => {
    stage.colouring = key;
    repaint();
  });
  const heads = flow.scene.lines ? flow.scene.lines.heads : [];
  choice("head", "Lines of head", heads.map((number, i) => [String(i), String(number)]), String(stage.head), (key) => {
    stage.head = Number(key);
    repaint();
  });
  choice("camera", "Camera", [["whole", "the whole flow"], ["follows", "follows the flow"]], camera.follows ? "follows" : "whole", (key) => {
    camera.follows = key === "follows";
    repaint();
  });
  readyLayers();
}

function chooseMember(key) {
  flow.member = Number(key);
  stage.token = -1;
  camera.follows = measurePanes();
  readyChoices();
  repaint();
}

/** Switches for the layers, if there are several. */
function readyLayers() {
  const layers = member().layers;
  if (layers.length < 2) return;
  for (const layer of layers) {
    const label = element("label");
    const box = element("input", { type: "checkbox" });
    box.checked = !flow.hidden.has(nameOf(layer));
    box.addEventListener("change", () => {
      if (box.checked) flow.hidden.delete(nameOf(layer));
      else flow.hidden.add(nameOf(layer));
      repaint();
    });
    const name = element("span", {}, ` ${nameOf(layer)}`);
    name.style.color = inkOf(layer);
    label.append(box, name);
    byId("choices").append(label);
  }
}
