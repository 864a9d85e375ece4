// Reads problems from the standard input and writes what the page's modules make of them.

import { interpolated } from "../meanfield/pages/live/dopri.js";
import { Flow, moved } from "../meanfield/pages/live/flow.js";
import { momentsOf } from "../meanfield/pages/live/moments.js";
import { answers, moments } from "./live_answers.mjs";

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const { table, noisy } = JSON.parse(Buffer.concat(chunks).toString());
const modules = { Flow, moved, interpolated, momentsOf };
const found = { table: answers(table, modules), noisy: moments(noisy, modules) };
process.stdout.write(JSON.stringify(found));
