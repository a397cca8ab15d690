import { testJournal } from "../contract/journal.ts";
import { openFixture } from "./support.ts";

testJournal("SQLite", async () => {
  const fixture = openFixture();
  return {
    journal: fixture.journal,
    reopen: async () => fixture.reopen(),
    close: async () => fixture.close(),
  };
});
