// From the cone to the page: a camera at a finite distance that looks at its middle.

const STRETCH = 1.7; // a unit of trace is drawn this many times as long as the others
const EYE = 8; // the distance of the eye, in heights
const HOME = { azimuth: -1.08, elevation: 0.3, zoom: 1 };

const camera = { ...HOME, width: 1, height: 1 };

/** The vectors of the view, worked out once for each picture. */
function frame() {
  const [ca, sa] = [Math.cos(camera.azimuth), Math.sin(camera.azimuth)];
  const [ce, se] = [Math.cos(camera.elevation), Math.sin(camera.elevation)];
  const top = (STRETCH / 2) * ce + Math.abs(se);
  const bottom = Math.max((STRETCH / 2) * ce, Math.abs(se) - (STRETCH / 2) * ce);
  const size = camera.zoom * Math.min(camera.width / 2.6, camera.height / (1.06 * (top + bottom) + 0.3));
  return { ca, sa, ce, se, size, x: camera.width / 2, y: camera.height / 2 + (size * (top - bottom)) / 2 };
}

/** The place on the page and the depth (larger is nearer) of a point in units of the height. */
function project(view, x, y, z) {
  const up = STRETCH * (z - 0.5);
  const flat = view.ca * x + view.sa * y;
  const depth = view.ce * flat + view.se * up;
  const scale = (view.size * EYE) / (EYE - depth);
  return [
    view.x + scale * (view.ca * y - view.sa * x),
    view.y - scale * (view.ce * up - view.se * flat),
    depth,
  ];
}

/** The half angle of the part of the surface that faces the eye, on either side of the azimuth.
 *
 * The outward normal is (cos φ, sin φ, -1/STRETCH), and the plane that touches the cone along a
 * ray holds the apex: the ray faces the eye where the eye is above that plane. */
function facing(view) {
  const away = EYE * view.ce;
  const above = EYE * view.se + STRETCH / 2;
  return Math.acos(Math.min(Math.max(above / (STRETCH * away), -1), 1));
}

/** Which side of the limit plane the eye is on, and its normal; null for no plane. */
function wall(view) {
  if (!scene.limit || scene.limit.length < 3) return null;
  const [, [a, b, c], [p, q, r]] = scene.limit;
  const normal = [b * r - c * q, c * p - a * r, a * q - b * p];
  const eye = [EYE * view.ce * view.ca, EYE * view.ce * view.sa, 0.5 + (EYE * view.se) / STRETCH];
  const side = Math.sign(normal[0] * eye[0] + normal[1] * eye[1] + normal[2] * eye[2]);
  return normal.map((x) => side * x);
}

function turn(right, up) {
  camera.azimuth -= right;
  camera.elevation = Math.min(Math.max(camera.elevation + up, -0.6), 1.45);
}

function zoomBy(factor) {
  camera.zoom = Math.min(Math.max(camera.zoom * factor, 0.5), 12);
}
