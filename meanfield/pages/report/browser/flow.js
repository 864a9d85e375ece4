// The state of playback: a scene, one of its members, and a time.

const flow = { scene: null, member: 0, place: 0, parts: null, whole: null, hidden: new Set() };

const member = () => flow.scene.members[flow.member];
const frames = () => flow.scene.times.data.length;

/** The time at a fractional frame index. */
function timeAt(place) {
  const times = flow.scene.times.data;
  const low = Math.min(Math.floor(place), times.length - 1);
  const next = Math.min(low + 1, times.length - 1);
  return times[low] + (place - low) * (times[next] - times[low]);
}

/** The fractional frame index at a time. */
function placeOf(t) {
  const { low, share } = within(flow.scene.times.data, t);
  return low + share;
}

/** Text that names the layer of a model that is active at a time; empty without layers. */
function layerWords(t) {
  const { depth } = flow.scene;
  const now = depth.filter(({ start }) => start <= t).pop() || depth[0];
  return now ? `layer ${now.number}` : "";
}

/** Text of a time and of the layer that is active then. */
const timeWords = (t) => [`t = ${shown(t)}`, layerWords(t)].filter(Boolean).join(", ");

const DEPTH = ["density", "tokens", "gaussian"]; // kinds of layers in drawing order

/** The visible layers of the member, in drawing order. */
const visible = () =>
  member()
    .layers.filter((layer) => !flow.hidden.has(nameOf(layer)))
    .sort((a, b) => DEPTH.indexOf(a.type) - DEPTH.indexOf(b.type));

const nameOf = (layer) => layer.name || layer.type;
