// What is played: a scene, one of its members, and a time.

const flow = { scene: null, member: 0, place: 0, parts: null, whole: null, hidden: new Set() };

const member = () => flow.scene.members[flow.member];
const frames = () => flow.scene.times.data.length;

/** The time at a place among the frames, which need not be a whole number. */
function timeAt(place) {
  const times = flow.scene.times.data;
  const low = Math.min(Math.floor(place), times.length - 1);
  const next = Math.min(low + 1, times.length - 1);
  return times[low] + (place - low) * (times[next] - times[low]);
}

/** The place among the frames at a time. */
function placeOf(t) {
  const { low, share } = within(flow.scene.times.data, t);
  return low + share;
}

/** The layer of a model that moves the tokens at a time, in words; nothing where there is none. */
function layerWords(t) {
  const { depth } = flow.scene;
  const now = depth.filter(({ start }) => start <= t).pop() || depth[0];
  return now ? `layer ${now.number}` : "";
}

/** A time, and the layer it belongs to. */
const timeWords = (t) => [`t = ${shown(t)}`, layerWords(t)].filter(Boolean).join(", ");

const DEPTH = ["density", "tokens", "gaussian"]; // from below

/** The layers of the member that are to be seen, from below. */
const visible = () =>
  member()
    .layers.filter((layer) => !flow.hidden.has(nameOf(layer)))
    .sort((a, b) => DEPTH.indexOf(a.type) - DEPTH.indexOf(b.type));

const nameOf = (layer) => layer.name || layer.type;
