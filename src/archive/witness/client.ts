import { Agent, fetch } from "undici";
import { cosignedAtMs, parseCheckpoint, type SignedCheckpoint } from "../log/checkpoint.ts";
import { parseSignature, type Verifier } from "../log/note.ts";
import { consistencyProof, leafHash, leavesOf } from "../log/tree.ts";

/** Asks a witness to cosign a checkpoint (C2SP tlog-witness v1.0.0). */
export interface WitnessClient {
  readonly verifier: Verifier;
  /** The cosignature line; throws with what the witness said, or why it was not reached. */
  cosign(checkpoint: SignedCheckpoint, entries: readonly Buffer[], signal: AbortSignal): Promise<string>;
}

const TIMEOUT_MS = 15_000;
const ANSWER_LENGTH_MAX = 100_000;

export function createWitnessClient(url: string, verifier: Verifier): WitnessClient {
  const dispatcher = new Agent({ connect: { rejectUnauthorized: true } });
  // The size that the witness saw last. Unknown at first: its answer to size 0 names it.
  let knownSize = 0;

  async function ask(body: string, signal: AbortSignal) {
    const answer = await fetch(`${url.replace(/\/$/, "")}/add-checkpoint`, {
      method: "POST",
      body,
      redirect: "error",
      dispatcher,
      signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
    });
    return { status: answer.status, text: (await answer.text()).slice(0, ANSWER_LENGTH_MAX) };
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
        const size = status === 409 ? Number(text.trim()) : Number.NaN;
        if (!Number.isSafeInteger(size))
          throw new Error(`The witness ${verifier.name} answered ${status}: ${text.slice(0, 200).trim()}`);
        if (size > checkpoint.size)
          throw new Error(
            `The witness ${verifier.name} has seen this log with ${size} entries; this archive has ${checkpoint.size}. It was rolled back.`,
          );
        knownSize = size;
      }
      throw new Error(`The witness ${verifier.name} keeps naming another size of the log.`);
    },
  };
}

/** The first line of the answer that is a valid cosignature of the witness' own key. */
function ownLine(text: string, checkpoint: SignedCheckpoint, verifier: Verifier): string {
  for (const line of text.split("\n").filter((one) => one !== "")) {
    const { name, id } = parseSignature(line);
    if (name !== verifier.name || id !== verifier.id) continue;
    const { note } = parseCheckpoint(Buffer.from(`${checkpoint.bytes}${line}\n`));
    if (cosignedAtMs(note, verifier) !== undefined) return line;
  }
  throw new Error(`The witness ${verifier.name} answered without a cosignature of its key.`);
}
