// Opens a state file at the moment that others do: node open-driver.js FILE START_MS. Ends with 0 if it could.

import { openState } from "../../dist/src/journal/database.js";

const [file, startMs] = process.argv.slice(2);
while (Date.now() < Number(startMs));
openState(file).close();
