// Reads laws of a page, or links that were typed; writes the links, and what these say.

import { hashOf, lawFrom } from "../meanfield/pages/live/link.js";

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const { initial, laws } = JSON.parse(Buffer.concat(chunks).toString());
const there = laws.map(({ law, isEdited, typed }) => {
  const hash = typed ?? hashOf(law, initial, isEdited);
  return { hash, ...lawFrom(`#${hash}`, initial) };
});
process.stdout.write(JSON.stringify(there));
