// One script for three threads: the page, the painter and the engine.

import { Page } from "./page.js";
import { play } from "./threads.js";

if (typeof document === "undefined") play(self.name);
else new Page();
