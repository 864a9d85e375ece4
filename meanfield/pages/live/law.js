// The matrices of an attention for given parameters: scores and value of each head.

import { product, scaled, transposed } from "./matrix.js";

/** The attentions of a page, and their names. */
export const NAMES = { softmax: "softmax", l2: "L2", sinkhorn: "Sinkhorn", linear: "linear", exp: "exp", sigmoid: "sigmoid" };
const ONLY_TOKENS = ["exp", "sigmoid"]; // attentions under which a Gaussian does not stay one

/** The attentions that this page integrates: closed forms for Gaussians, and no Sinkhorn for masks. */
export function known({ measure, causal }) {
  return Object.keys(NAMES).filter((name) => !(measure === "gaussian" && ONLY_TOKENS.includes(name)) && !(causal && name === "sinkhorn"));
}

/** The scores and the value of each head.
 *
 * Scores are `s(x, y) = y·Ax - ½ y·By`, but for what depends on the query `x` alone: `A = KᵀQ/ε`
 * and `B = 0` for dot products, twice that and `B = 2KᵀK/ε` for minus squared distances.
 * Sinkhorn attention has the value `V/ε`, as in the literature. */
export function forms(law) {
  return law.heads.map(({ Q, K, V }) => {
    const distances = law.attention === "l2";
    const times = (distances ? 2 : 1) / law.epsilon;
    return {
      A: scaled(product(transposed(K), Q), times),
      B: distances ? scaled(product(transposed(K), K), times) : null,
      V: law.attention === "sinkhorn" ? scaled(V, 1 / law.epsilon) : V,
    };
  });
}
