// Pointers and keys.

/** Calls `act` with the pointer's place on a canvas while it is pressed, and with its movement. */
function draggable(canvas, act) {
  let before = null;
  const at = (event) => {
    const frame = canvas.getBoundingClientRect();
    return [event.clientX - frame.left, event.clientY - frame.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    before = at(event);
    canvas.setPointerCapture(event.pointerId);
    act(...before, 0, 0);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!before) return;
    const now = at(event);
    act(...now, now[0] - before[0], now[1] - before[1]);
    before = now;
  });
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => (before = null));
}

function dragStage(x, y, across, along) {
  if (flow.scene.axes.length === 3) {
    camera.azimuth -= across / 150;
    camera.elevation = Math.min(Math.max(camera.elevation + along / 150, -1.55), 1.55);
  } else {
    camera.slide = [camera.slide[0] + across, camera.slide[1] + along];
  }
  paintPanes();
}

function zoomBy(factor) {
  camera.zoom = Math.min(Math.max(camera.zoom * factor, 0.2), 200);
  paintPanes();
}

/** Handles keys of the stage, the cone and the page, except keys that a field uses itself. */
function pressed(event) {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const target = event.target;
  if (["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName)) return;
  if (target.tagName === "BUTTON" && event.key === " ") return;
  const turn = { ArrowLeft: [-20, 0], ArrowRight: [20, 0], ArrowUp: [0, -20], ArrowDown: [0, 20] }[event.key];
  if (turn && panes.some(({ above }) => above === target)) dragStage(0, 0, ...turn);
  else if (turn && target === cone.canvas) turnCone(turn[0] / 150, turn[1] / 150);
  else if (!KEYS[event.key]) return;
  else KEYS[event.key]();
  event.preventDefault();
}

const KEYS = {
  " ": () => play(!player.playing),
  ArrowLeft: () => step(-1),
  ArrowRight: () => step(1),
  Home: () => goTo(0),
  End: () => goTo(frames() - 1),
  "+": () => zoomBy(1.25),
  "-": () => zoomBy(0.8),
  0: () => {
    Object.assign(camera, { ...HOME, slide: [0, 0] });
    repaint();
  },
  "]": () => chooseToken(1),
  "[": () => chooseToken(-1),
  Escape: () => {
    stage.token = -1;
    repaint();
  },
};

function chooseToken(by) {
  const layer = tokenLayer();
  if (!layer) return;
  const count = layer.positions.steps.shape[2];
  stage.token = (stage.token + by + count) % count;
  repaint();
}
