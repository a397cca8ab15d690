import { Agent, fetch, type Response } from "undici";
import { DecisionNeededError } from "../../core/errors.ts";
import { timeoutSignal } from "../../core/timeout.ts";
import { BEGIN_ANOTHER } from "../log/ahead.ts";
import { cosignedAtMs, parseCheckpoint, type SignedCheckpoint } from "../log/checkpoint.ts";
import { parseSignature, type Verifier } from "../log/note.ts";
import { consistencyProof, leafHash, leavesOf } from "../log/tree.ts";

/** Asks a witness to cosign a checkpoint (C2SP tlog-witness v1.0.0). */
export interface WitnessClient {
  readonly verifier: Verifier;
  /**
   * The cosignature line; throws with what the witness said, or why it was not reached. DecisionNeededError: it knows a
   * longer or another history of this log.
   */
  cosign(checkpoint: SignedCheckpoint, entries: readonly Buffer[], signal: AbortSignal): Promise<string>;
}

const TIMEOUT_MS = 15_000;
const ANSWER_BYTES_MAX = 100_000;

export function createWitnessClient(
  url: string,
  verifier: Verifier,
  timeoutMs: number = TIMEOUT_MS,
): WitnessClient {
  const dispatcher = new Agent({ connect: { rejectUnauthorized: true } });
  // The size that the witness saw last. Unknown at first: its answer to size 0 names it.
  let knownSize = 0;

  async function ask(body: string, signal: AbortSignal) {
    const answer = await fetch(`${url.replace(/\/$/, "")}/add-checkpoint`, {
      method: "POST",
      body,
      redirect: "error",
      dispatcher,
      signal: AbortSignal.any([signal, timeoutSignal(timeoutMs)]),
    });
    return { status: answer.status, text: await textOf(answer) };
  }

  /** A witness is somebody else's server: its answer may have no end. */
  async function textOf({ body }: Response): Promise<string> {
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    for await (const chunk of body ?? []) {
      bytes += chunk.length;
      if (bytes > ANSWER_BYTES_MAX)
        throw new Error(
          `The witness ${verifier.name} answered with more than ${ANSWER_BYTES_MAX} bytes, which is no answer of a witness: check its address.`,
        );
      chunks.push(chunk);
    }
    return Buffer.concat(chunks).toString();
  }

  return {
    verifier,
    async cosign(checkpoint, entries, signal) {
      const leaves = leavesOf(Buffer.concat(entries.map((entry) => leafHash(entry))));
      for (let attempt = 0; attempt < 2; attempt++) {
        const proof = knownSize === 0 ? [] : consistencyProof(leaves, knownSize, checkpoint.size);
        const lines = [`old ${knownSize}`, ...proof.map((node) => node.toString("base64")), ""].join("\n");
        const { status, text } = await ask(`${lines}\n${checkpoint.bytes}`, signal);
        if (status === 200) {
          knownSize = checkpoint.size;
          return ownLine(text, checkpoint, verifier);
        }
        const { name } = verifier;
        if (status === 422 && knownSize > 0)
          throw otherHistory(
            `The witness ${name} has seen another history of this log (${text.slice(0, 200).trim()})`,
          );
        const size = status === 409 ? Number(text.trim()) : Number.NaN;
        if (!Number.isSafeInteger(size))
          throw new Error(`The witness ${name} answered ${status}: ${text.slice(0, 200).trim()}`);
        if (size > checkpoint.size)
          throw otherHistory(
            `The witness ${name} has seen this log with ${size} entries, and this archive has ${checkpoint.size}`,
          );
        // Some witnesses answer so to a checkpoint of the same size with other entries.
        if (size === knownSize && size === checkpoint.size)
          throw otherHistory(`The witness ${name} has seen other entries of this log`);
        knownSize = size;
      }
      throw new Error(`The witness ${verifier.name} keeps naming another size of the log.`);
    },
  };
}

function otherHistory(seen: string): DecisionNeededError {
  return new DecisionNeededError(
    `${seen}: state and archive were put back from an older copy, or two processes write there. Nothing was published.`,
    [
      "put back the newest state file and the newest archive",
      "stop the other process that writes there",
      BEGIN_ANOTHER,
      "if the witness is wrong, take it out of the config",
    ],
  );
}

/** The first line of the answer that is a valid cosignature of the witness' own key. */
function ownLine(text: string, checkpoint: SignedCheckpoint, verifier: Verifier): string {
  const ids: string[] = [];
  for (const line of text.split("\n").filter((one) => one !== "")) {
    const { name, id } = parseSignature(line);
    if (name === verifier.name) ids.push(id);
    if (name !== verifier.name || id !== verifier.id) continue;
    const { note } = parseCheckpoint(Buffer.from(`${checkpoint.bytes}${line}\n`));
    if (cosignedAtMs(note, verifier) !== undefined) return line;
  }
  const another = ids.find((id) => id !== verifier.id);
  if (another !== undefined)
    throw new Error(
      `The witness ${verifier.name} cosigns with the key ${another}, and the config names ${verifier.id}: if its owner has changed the key, name the new one in the config`,
    );
  throw new Error(`The witness ${verifier.name} answered without a cosignature of its key`);
}
