// The cone of covariances of the flow, which the pointer can turn.

const cone = { canvas: byId("cone"), camera: new ConeCamera(), paths: null };

function readyCone() {
  const data = flow.scene.cone;
  byId("cone-part").hidden = !data;
  cone.paths = data && unpackedCone(data);
}

/** The current time as a fraction of the time span of all paths. */
function coneMoment({ times }) {
  if (!times) return 1;
  return Math.min(Math.max((timeAt(flow.place) - times[0]) / (times[1] - times[0]), 0), 1);
}

/** The look of a path, by its representation or its ending; paths of other members are faint. */
function pathLook(path) {
  const { runs, endings, names } = flow.scene.cone;
  const [run, ending] = runs[path];
  const place = flow.scene.members.findIndex(({ label }) => flow.scene.together && label === names[path]);
  const ink = place < 0 ? { points: INKS.tokens, gaussian: INKS.Gaussian, grid: INKS.density }[names[path]] : category(place);
  const isChosen = runs.length === 1 || names[path] !== "" || run === member().number;
  const { colour, marker } = endings[ending];
  return { marker, colour: css(legible(ink || parsed(colour))), share: isChosen ? 1 : 0.65, ahead: true };
}

function paintCovariances() {
  const data = flow.scene.cone;
  if (!data || !cone.canvas.clientWidth) return;
  const { pen, width, height } = penOf(cone.canvas);
  cone.camera.box = { x: 0, y: 0, width, height };
  palette.limit = css(legible(parsed(data.limitColour)));
  paintCone(pen, palette, cone.camera, cone.paths, { now: coneMoment(data), look: pathLook });
  if (!(data.tallest > data.height)) return;
  pen.fillStyle = palette.soft;
  pen.textAlign = "left";
  pen.font = `13px ${palette.font}`;
  pen.fillText(`paths leave: traces go on to ${shown(data.tallest, 3)}`, 6, height - 10);
}

function turnCone(across, along) {
  cone.camera.turn(across, along);
  paintCovariances();
}
