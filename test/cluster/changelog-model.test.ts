import { createModelChangelog } from "../../sim/changelog.ts";
import { testChangelog } from "../contract/changelog.ts";

testChangelog("the model", async () => {
  const changelog = createModelChangelog();
  changelog.create("c1", 2);
  return { changelog, close: async () => {} };
});
