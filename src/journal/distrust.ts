import type { Distrust, Journal } from "../core/journal.ts";
import type { State } from "./database.ts";

/** Without it, a program that was restarted would trust the service's order until the next answer shows that it is wrong. */
export function createDistrust(db: State): Pick<Journal, "distrust" | "setDistrust"> {
  const select = db.prepare("SELECT value FROM meta WHERE key = ?").pluck();
  const write = db.prepare("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)");
  const remove = db.prepare("DELETE FROM meta WHERE key = ?");
  const keyOf = (account: string) => `unordered_answers ${account}`;
  return {
    async distrust(account) {
      const text = select.get(keyOf(account)) as string | undefined;
      return text === undefined ? undefined : (JSON.parse(text) as Distrust);
    },
    setDistrust: (account, distrust) =>
      db.change(() => {
        if (distrust === undefined) remove.run(keyOf(account));
        else write.run(keyOf(account), JSON.stringify(distrust));
      }),
  };
}
