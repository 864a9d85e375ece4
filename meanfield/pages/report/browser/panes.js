// Panes: the stage of one flow, or a stage for each run of a page of several runs, with a common time and camera.

const panes = [{ member: 0, figure: byId("stage"), below: byId("dots"), above: byId("scene"), screens: new Map() }];

/** Makes a pane current: its canvases are the stage, and its run is the member. */
function enter({ below, above, screens, member, parts, whole }) {
  Object.assign(stage, { below, above, screens });
  Object.assign(flow, { member, parts, whole });
}

/** Calls `act` with each pane while it is current. */
function eachPane(act) {
  const chosen = panes.find(({ member }) => member === flow.member) || panes[0];
  for (const pane of panes) {
    enter(pane);
    act(pane);
  }
  enter(chosen);
}

/** Makes a pane for each run of a page of several runs. */
function readyPanes() {
  if (!flow.scene.together) return;
  while (panes.length < flow.scene.members.length) panes.push(madePane(panes.length));
  eachPane(({ figure }) => figure.querySelector("figcaption").replaceChildren(titleOf(member())));
}

function madePane(number) {
  const figure = panes[0].figure.cloneNode(true);
  const [below, above] = figure.querySelectorAll("canvas");
  for (const part of [figure, below, above]) part.removeAttribute("id");
  panes[0].figure.parentNode.append(figure);
  return readyPane({ member: number, figure, below, above, screens: new Map() });
}

/** The label of a run in the colour of its curves, its ending, and when it ended too early. */
function titleOf({ label, ending, number, stop }) {
  const when = stop === null || stop >= timeAt(frames() - 1) ? "" : ` at t = ${shown(stop)}`;
  const title = element("span", {}, `${label}: ${ending}${when}`);
  title.style.color = css(category(number));
  return title;
}

/** Lets the pointer turn, move and zoom the flow of a pane, and choose a token. */
function readyPane(pane) {
  draggable(pane.above, dragStage);
  pane.above.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY / 500));
  }, { passive: false });
  pane.above.addEventListener("click", (event) => {
    const frame = pane.above.getBoundingClientRect();
    enter(pane);
    const token = tokenAt(event.clientX - frame.left, event.clientY - frame.top);
    if (token >= 0) stage.token = token;
    repaint();
  });
  new ResizeObserver(() => flow.scene && pane.above.clientWidth && repaint()).observe(pane.above); // a stage without width is hidden
  return pane;
}

/** Measures the flows of all panes, which are drawn to one scale; returns whether a fixed camera would show one too small. */
function measurePanes() {
  const lost = [];
  panes[0].member = flow.scene.together ? 0 : flow.member;
  eachPane((pane) => {
    lost.push(measureFlow());
    pane.parts = flow.parts;
  });
  const whole = wholeOf(panes.flatMap(({ parts }) => parts));
  for (const pane of panes) pane.whole = whole;
  enter(panes.find(({ member }) => member === flow.member));
  return lost.some(Boolean);
}

const paintPanes = () => eachPane(paintStage);
