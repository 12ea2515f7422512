// Advice and the heat map, as they change.

import { keepFresh } from "./fresh.js";

keepFresh();
