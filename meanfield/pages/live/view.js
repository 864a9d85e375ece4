// The view: a map from the plane to the page that follows the mean and the spread.

const ROOM = 3.4; // distance from the mean to the edges of the view, in standard deviations
const LOOSE = 2.2; // factor by which the view can be too wide before it follows
const HASTE = 6; // rate per second at which the logarithm of the scale follows

export class View {
  constructor() {
    Object.assign(this, { centre: [0, 0], half: 0, zoom: 1, box: { x: 0, y: 0, width: 1, height: 1 } });
  }

  /** Moves towards the target; at once if `seconds` is infinite. */
  follow(centre, deviation, seconds) {
    const wish = Math.max(ROOM * deviation, 1e-12);
    this.centre = centre;
    if (!(this.half > 0) || seconds === Infinity) this.half = wish;
    const target = this.half < wish ? wish : this.half > LOOSE * wish ? LOOSE * wish : this.half;
    this.half *= (target / this.half) ** Math.min(1, HASTE * seconds);
    if (this.half < wish / 1.5) this.half = wish / 1.5; // a growing cloud stays in view
  }

  /** Shows a square around zero, of this half-width. */
  show(half) {
    Object.assign(this, { centre: [0, 0], half });
  }

  get scale() {
    return (this.zoom * Math.min(this.box.width, this.box.height)) / 2 / this.half;
  }

  /** The place on the page of a point in the plane. */
  place(x, y) {
    const { box, centre, scale } = this;
    return [box.x + box.width / 2 + scale * (x - centre[0]), box.y + box.height / 2 - scale * (y - centre[1])];
  }

  /** The point in the plane of a place on the page. */
  point(px, py) {
    const { box, centre, scale } = this;
    return [centre[0] + (px - box.x - box.width / 2) / scale, centre[1] - (py - box.y - box.height / 2) / scale];
  }
}
