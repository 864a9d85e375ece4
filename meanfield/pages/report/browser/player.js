// Playback: play, pause, speed, steps from frame to frame.

const LONG = 10; // duration of a whole flow at speed one, in seconds
const player = { playing: false, speed: 1, last: 0 };

function goTo(place) {
  flow.place = Math.min(Math.max(place, 0), frames() - 1);
  repaint();
  if (!player.playing) say();
}

function play(playing) {
  player.playing = playing && frames() > 1;
  if (player.playing && flow.place >= frames() - 1) flow.place = 0;
  byId("play").textContent = player.playing ? "❚❚" : "▶\uFE0E";
  byId("play").setAttribute("aria-label", player.playing ? "Pause" : "Play");
  player.last = performance.now();
  if (player.playing) requestAnimationFrame(advance);
  else say();
}

function advance(now) {
  if (!player.playing) return;
  const seconds = (now - player.last) / 1000;
  player.last = now;
  const place = flow.place + (seconds * player.speed * (frames() - 1)) / LONG;
  goTo(place);
  if (place >= frames() - 1) play(false);
  else requestAnimationFrame(advance);
}

/** Moves to the next frame or to the previous one. */
function step(by) {
  play(false);
  goTo(by > 0 ? Math.floor(flow.place + 1e-9) + 1 : Math.ceil(flow.place - 1e-9) - 1);
}

/** Draws everything that depends on the time. */
function repaint() {
  paintPanes();
  paintKey();
  paintCovariances();
  paintCurves();
  const t = timeAt(flow.place);
  byId("time").value = flow.place;
  byId("time").setAttribute("aria-valuetext", timeWords(t));
  byId("clock").textContent = timeWords(t);
  const { stop, ending } = member();
  const over = stop !== null && t > stop * (1 + 1e-9) ? `; ended at t = ${shown(stop)} (${ending}), its last state is shown` : "";
  byId("frame").textContent = `frame ${Math.round(flow.place) + 1} of ${frames()}${over}`;
  byId("token").textContent = choiceWords();
}

/** Tells screen readers the time of the flow while it is paused. */
function say() {
  const rank = curves.made.find(({ panel }) => panel.names[0] === "rank");
  const words = rank ? `, ${rank.canvas.getAttribute("aria-label")}` : "";
  byId("status").textContent = `${byId("clock").textContent}, ${byId("frame").textContent}${words}`;
}

function readyPlayer() {
  byId("time").max = frames() - 1;
  byId("player").hidden = frames() < 2;
}
