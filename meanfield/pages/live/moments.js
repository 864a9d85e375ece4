// Mean and covariance of a state, and the axes of its ellipse.

import { unpacked } from "./gaussians.js";
import { eigen, square } from "./matrix.js";
import { meanOf } from "./sums.js";

export function momentsOf(cloud, y) {
  if (cloud.measure === "gaussian") {
    const { mean, factor } = unpacked(y, cloud.d);
    return { mean, covariance: square(factor) };
  }
  const { d, weights } = cloud;
  const mean = Array.from(meanOf(y, weights, d));
  const covariance = mean.map(() => new Array(d).fill(0));
  for (let i = 0; i < weights.length; i++) {
    for (let k = 0; k < d; k++) {
      const share = weights[i] * (y[i * d + k] - mean[k]);
      for (let l = 0; l <= k; l++) covariance[k][l] += share * (y[i * d + l] - mean[l]);
    }
  }
  for (let k = 0; k < d; k++) for (let l = 0; l < k; l++) covariance[l][k] = covariance[k][l];
  return { mean, covariance };
}

/** The half axes of the ellipse in the first two coordinates, the longer first, as vectors. */
export function axesOf(covariance) {
  const { values, vectors } = eigen(covariance.slice(0, 2).map((row) => row.slice(0, 2)));
  const axis = (i) => vectors[i].map((x) => x * Math.sqrt(Math.max(values[i], 0)));
  return [axis(1), axis(0)];
}

export const spread = (covariance) => {
  const { values } = eigen(covariance);
  return Math.sqrt(Math.max(values[values.length - 1], 0));
};
