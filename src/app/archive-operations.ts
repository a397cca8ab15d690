import type { Archive } from "../archive/archive.ts";
import type { Deletions } from "../archive/deletion/deletion.ts";
import type { Hold } from "../archive/deletion/holds.ts";
import { type ActionBody, type Actions, UnknownNameError } from "../core/actions.ts";

/** A change of an archive that its log has to record. */
export type ArchiveOperation = ActionBody<"archive">["operation"];

type ReconcileOperation = Extract<ArchiveOperation, { readonly kind: "reconcile" }>;

async function recordReconcile(
  { log }: Archive,
  { from, to, askedMs, days, organizations, returned, held, erased, onlyHeld, missing }: ReconcileOperation,
  signal: AbortSignal,
): Promise<string> {
  const counts = { days, organizations, returned, held, erased, only_held: onlyHeld, missing };
  const asked = new Date(askedMs).toISOString();
  const body = { kind: "reconcile", from, to, asked, compared: "identities", ...counts } as const;
  await log.append([{ body }], signal);
  return "The result is in the log.";
}

function newestKey(archive: Archive): string {
  const leaf = archive.leaves().findLast(({ kind }) => kind === "key");
  return `The newest key of the log is ${leaf?.kind === "key" ? leaf.key : "none"}, in entry ${leaf?.index}.`;
}

export function holdText(hold: Hold): string {
  const whom = hold.organizations.join(",") || "all organizations";
  return `${hold.id}  ${hold.case}  ${whom}  ${hold.from ?? "…"} to ${hold.to ?? "…"}`;
}

/** Carries an operation out and says what was done. */
export function carryOut(
  archive: Archive,
  open: () => Deletions,
  operation: ArchiveOperation,
  signal: AbortSignal,
): Promise<string> {
  if (operation.kind === "reconcile") return recordReconcile(archive, operation, signal);
  if (operation.kind === "keys") return Promise.resolve(newestKey(archive));
  const deletions = open();
  switch (operation.kind) {
    case "hold":
      return deletions.hold(operation, signal).then((id) => `The hold ${id} is in force and in the log.`);
    case "holds":
      return Promise.resolve(deletions.holds().map(holdText).join("\n") || "Nothing is on hold.");
    case "release":
      return deletions.release(operation.hold, signal);
    case "prune":
      return deletions.prune(operation, signal);
    case "erase":
      return deletions.erase(operation, signal);
  }
}

interface ChangedArchive {
  readonly name: string;
  change(operation: ArchiveOperation, signal: AbortSignal): Promise<string>;
}

export function archiveActions(archives: readonly ChangedArchive[]): Pick<Actions, "archive"> {
  return {
    async archive({ archive: name, operation }, signal) {
      const found =
        name === undefined && archives.length === 1 ? archives[0] : archives.find((one) => one.name === name);
      if (found === undefined)
        throw new UnknownNameError(
          `There is no archive ${name === undefined ? "" : `"${name}" `}in the config.`,
        );
      return { message: await found.change(operation, signal), count: 1 };
    },
  };
}
