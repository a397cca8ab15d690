import { createGzip } from "node:zlib";

/** Each chunk of output is a turn of the main thread: the default of 16 KB makes hundreds of them for one body. */
const CHUNK_BYTES = 128 << 10;

/** One gzip member of all the pieces, compressed in the system's pool of threads. Nothing is copied before. */
export function gzip(pieces: readonly Uint8Array[]): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const stream = createGzip({ chunkSize: CHUNK_BYTES });
    const chunks: Buffer[] = [];
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("error", reject);
    stream.on("end", () => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)));
    for (const piece of pieces) stream.write(piece);
    stream.end();
  });
}
