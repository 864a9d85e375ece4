// From the plane to the page: a view that follows the mean, with the scale that its spread asks for.

const ROOM = 3.4; // deviations from the mean to an edge of the view
const LOOSE = 2.2; // how much wider the view may be than asked for before it follows
const HASTE = 6; // per second, of the logarithm of the scale

export class View {
  constructor() {
    Object.assign(this, { centre: [0, 0], half: 0, zoom: 1, box: { x: 0, y: 0, width: 1, height: 1 } });
  }

  /** Moves towards what is to be seen; at once if `seconds` is infinite. */
  follow(centre, deviation, seconds) {
    const wish = Math.max(ROOM * deviation, 1e-12);
    this.centre = centre;
    if (!(this.half > 0) || seconds === Infinity) this.half = wish;
    const target = this.half < wish ? wish : this.half > LOOSE * wish ? LOOSE * wish : this.half;
    this.half *= (target / this.half) ** Math.min(1, HASTE * seconds);
    if (this.half < wish / 1.5) this.half = wish / 1.5; // growth is never lost from sight
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
