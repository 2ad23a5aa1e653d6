// Runs as soon as it is there, before the page has been read to its end.

import { begin } from "./stream.js";

begin();
