// A campaign: part of `npm test`, too long for `npm run test:unit`.
import { testJournal } from "../../contract/journal.ts";
import { laneFixture } from "./support.ts";

/** The journal of a lane passes the same suite as the journal of a single state file, unchanged. */
testJournal("a lane, continued from its file", async () => {
  const fixture = laneFixture();
  let lane = await fixture.open();
  return {
    journal: lane.journal,
    async reopen() {
      await lane.close();
      lane = await fixture.open();
      return lane.journal;
    },
    close: () => fixture.close(),
  };
});

testJournal("a lane, built anew on another machine at every opening", async () => {
  const fixture = laneFixture();
  let machine = 0;
  const lane = await fixture.open("machine0");
  return {
    journal: lane.journal,
    async reopen() {
      machine++;
      return (await fixture.open(`machine${machine}`)).journal;
    },
    close: () => fixture.close(),
  };
});
