// Entry point: shows a scene on the page and updates it.

/** Shows a scene; a newer one of the same run keeps the time, the view and the choices. */
async function show(packedScene) {
  const older = flow.scene;
  const t = older ? timeAt(flow.place) : 0;
  const atEnd = !older || flow.place >= frames() - 1;
  const scene = await unpacked(packedScene);
  flow.scene = scene;
  flow.member = Math.min(flow.member, scene.members.length - 1);
  readyPanes();
  const isLost = measurePanes();
  if (!older) camera.follows = isLost;
  readyPlayer();
  readyCone();
  readyCurves();
  readyChoices();
  flow.place = !older ? 0 : atEnd ? frames() - 1 : placeOf(t);
  goTo(flow.place);
  performance.mark("first picture");
}

/** Replaces the content by that of a newer page. */
async function adopt(page) {
  if (!page.scene.members.length) return;
  await show({ ...page.scene, title: page.title });
}

byId("play").addEventListener("click", () => play(!player.playing));
byId("time").addEventListener("input", (event) => {
  play(false);
  goTo(Number(event.target.value));
});
byId("speed").addEventListener("change", (event) => (player.speed = Number(event.target.value)));
byId("save").addEventListener("click", savePicture);
byId("home").addEventListener("click", KEYS[0]);
addEventListener("keydown", pressed);
readyPane(panes[0]);
draggable(cone.canvas, (x, y, across, along) => turnCone(across / 150, along / 150));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  takePalette();
  if (!flow.scene) return;
  readyPanes(); // colours of the titles
  repaint();
});
takePalette();
const told = JSON.parse(byId("data").textContent);
if (told.members.length) show(told);
else byId("watched").textContent = "No frame is there yet; this page waits for it.";
