// Small dense matrices, as arrays of rows.

export const zeros = (m, n) => Array.from({ length: m }, () => new Array(n).fill(0));
export const identity = (n) => zeros(n, n).map((row, i) => row.map((_, j) => (i === j ? 1 : 0)));
export const transposed = (A) => A[0].map((_, j) => A.map((row) => row[j]));
export const scaled = (A, c) => A.map((row) => row.map((a) => c * a));
export const plus = (A, B) => A.map((row, i) => row.map((a, j) => a + B[i][j]));
export const dot = (x, y) => x.reduce((sum, a, i) => sum + a * y[i], 0);
export const applied = (A, x) => A.map((row) => dot(row, x));

export function product(A, B) {
  const columns = transposed(B);
  return A.map((row) => columns.map((column) => dot(row, column)));
}

/** The matrix with one entry replaced. */
export const withEntry = (A, i, j, x) => A.map((row, k) => row.map((a, l) => (k === i && l === j ? x : a)));

/** The number `c` if the matrix is `c I`; null otherwise. */
export function multiple(A) {
  const c = A[0][0];
  return A.length === A[0].length && A.every((row, i) => row.every((a, j) => a === (i === j ? c : 0))) ? c : null;
}

/** `A Aᵀ`. */
export const square = (A) => A.map((row) => A.map((other) => dot(row, other)));

/** The solution of `G X = B` for a symmetric positive definite `G`; NaN if it is not.
 *
 * Elimination without pivots, of which such matrices need none. */
export function solvedPositive(G, B) {
  const rows = G.map((row) => [...row]);
  const right = B.map((row) => [...row]);
  const n = rows.length;
  for (let k = 0; k < n; k++) {
    const pivot = rows[k][k] > 0 ? rows[k][k] : NaN;
    for (let i = k + 1; i < n; i++) subtract(rows, right, i, k, rows[i][k] / pivot);
  }
  return substituted(rows, right);
}

/** The solution of `G X = B` for any regular `G`, by elimination with pivots. */
export function solved(G, B) {
  const rows = G.map((row) => [...row]);
  const right = B.map((row) => [...row]);
  const n = rows.length;
  for (let k = 0; k < n; k++) {
    let best = k;
    for (let i = k + 1; i < n; i++) if (Math.abs(rows[i][k]) > Math.abs(rows[best][k])) best = i;
    [rows[k], rows[best]] = [rows[best], rows[k]];
    [right[k], right[best]] = [right[best], right[k]];
    for (let i = k + 1; i < n; i++) subtract(rows, right, i, k, rows[i][k] / rows[k][k]);
  }
  return substituted(rows, right);
}

function subtract(rows, right, i, k, share) {
  for (let j = k; j < rows.length; j++) rows[i][j] -= share * rows[k][j];
  for (let j = 0; j < right[i].length; j++) right[i][j] -= share * right[k][j];
}

function substituted(rows, right) {
  for (let k = rows.length - 1; k >= 0; k--) {
    right[k] = right[k].map((value, c) => {
      for (let j = k + 1; j < rows.length; j++) value -= rows[k][j] * right[j][c];
      return value / rows[k][k];
    });
  }
  return right;
}

const SWEEPS = 60; // largest number of sweeps of Jacobi rotations; ten were enough in all tests

/** Eigenvalues, not decreasing, and eigenvectors, as rows, of a symmetric matrix. */
export function eigen(S) {
  const A = S.map((row) => [...row]);
  const vectors = identity(A.length);
  for (let sweep = 0; sweep < SWEEPS && rotateAll(A, vectors); sweep++);
  const order = A.map((_, i) => i).sort((i, j) => A[i][i] - A[j][j]);
  return { values: order.map((i) => A[i][i]), vectors: order.map((i) => vectors[i]) };
}

/** One sweep of Jacobi rotations; returns whether any rotation was needed. */
function rotateAll(A, vectors) {
  let turned = false;
  for (let p = 0; p < A.length; p++) {
    for (let q = p + 1; q < A.length; q++) {
      if (!(Math.abs(A[p][q]) > 1e-17 * Math.sqrt(Math.abs(A[p][p] * A[q][q]))) || A[p][q] === 0) continue;
      turned = true;
      const half = (A[q][q] - A[p][p]) / (2 * A[p][q]);
      const tangent = (half < 0 ? -1 : 1) / (Math.abs(half) + Math.hypot(1, half));
      rotate(A, vectors, p, q, tangent);
    }
  }
  return turned;
}

function rotate(A, vectors, p, q, tangent) {
  const cos = 1 / Math.hypot(1, tangent);
  const sin = tangent * cos;
  const turn = (a, b) => [cos * a - sin * b, sin * a + cos * b];
  for (const row of A) [row[p], row[q]] = turn(row[p], row[q]);
  for (let j = 0; j < A.length; j++) [A[p][j], A[q][j]] = turn(A[p][j], A[q][j]);
  for (let j = 0; j < A.length; j++) [vectors[p][j], vectors[q][j]] = turn(vectors[p][j], vectors[q][j]);
  A[p][q] = A[q][p] = 0;
}

/** The symmetric matrix with the same eigenvectors, and `f` of the eigenvalues. */
export function ofEigenvalues(S, f) {
  const { values, vectors } = eigen(S);
  const weighted = vectors.map((vector, i) => vector.map((x) => f(values[i]) * x));
  return product(transposed(vectors), weighted);
}

export const root = (S) => ofEigenvalues(S, (value) => Math.sqrt(Math.max(value, 0)));
