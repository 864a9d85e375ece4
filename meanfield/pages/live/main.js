// One script for three threads: the page, and what it starts beside itself.

import { Page } from "./page.js";
import { play } from "./threads.js";

if (typeof document === "undefined") play(self.name);
else new Page();
