// Motion on a circle or a sphere around zero, and its view from a camera that turns.

/** A velocity whose part along each token is left out. */
export const tangential = (velocity, d) => (y, out) => {
  const isKnown = velocity(y, out);
  for (let i = 0; i < y.length; i += d) {
    let [along, square] = [0, 0];
    for (let k = i; k < i + d; k++) {
      along += y[k] * out[k];
      square += y[k] * y[k];
    }
    for (let k = i; k < i + d; k++) out[k] -= (along / square) * y[k];
  }
  return isKnown;
};

const ROUNDING = 8 * Number.EPSILON; // relative, of a square

/** Moves each token that is off the sphere by more than rounding to the nearest point. */
export function project(y, d, radius) {
  for (let i = 0; i < y.length; i += d) {
    let square = 0;
    for (let k = i; k < i + d; k++) square += y[k] * y[k];
    const isOff = !(Math.abs(square / radius ** 2 - 1) <= ROUNDING);
    for (let k = i; isOff && k < i + d; k++) y[k] *= radius / Math.sqrt(square);
  }
  return y;
}

/** The directions to the right, upwards and towards the eye, as rows. */
export function directions({ azimuth, elevation }) {
  const [ca, sa] = [Math.cos(azimuth), Math.sin(azimuth)];
  const [ce, se] = [Math.cos(elevation), Math.sin(elevation)];
  return [[-sa, ca, 0], [-se * ca, -se * sa, ce], [ce * ca, ce * sa, se]];
}

const image = (rows, y) => y.map((_, at) => {
  const i = at - (at % 3);
  const row = rows[at % 3];
  return row[0] * y[i] + row[1] * y[i + 1] + row[2] * y[i + 2];
});

/** A scene on a sphere as the camera sees it, with the third coordinate towards the eye; other scenes as they are. */
export function sceneFrom(camera, scene) {
  if (!(scene.cloud.radius && scene.cloud.d === 3)) return scene;
  const axes = directions(camera);
  const sampler = (count, from, to) => scene.sampler(count, from, to).map((state) => image(axes, state));
  return { ...scene, axes, state: image(axes, scene.state), sampler };
}

/** The state of a scene whose token is dragged to a point of the picture, on its side of the sphere. */
export function draggedOnSphere({ cloud, state }, camera, token, [x, y]) {
  const { d, radius } = cloud;
  const moved = Float64Array.from(state);
  if (d === 2 && x === 0 && y === 0) return moved; // no point of the circle is nearest
  if (d === 2) moved.set([x, y], 2 * token);
  else {
    const axes = directions(camera);
    const depth = axes[2].reduce((sum, component, k) => sum + component * state[3 * token + k], 0);
    const inner = Math.min(1, radius / Math.hypot(x, y));
    const height = Math.sqrt(Math.max(radius ** 2 - inner ** 2 * (x ** 2 + y ** 2), 0));
    const place = [inner * x, inner * y, depth < 0 ? -height : height];
    moved.set([0, 1, 2].map((k) => axes.reduce((sum, axis, r) => sum + axis[k] * place[r], 0)), 3 * token);
  }
  project(moved.subarray(d * token, d * (token + 1)), d, radius);
  return moved;
}
