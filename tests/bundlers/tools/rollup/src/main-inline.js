import "escale/inline";

import { show } from "./page.js";

show();
