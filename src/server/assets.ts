import { hash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, extname, join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";

/** The build copies this folder to dist/, so the path is the same there. */
const PAGE = new URL("./page/", import.meta.url);
const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

interface Asset {
  readonly type: string;
  readonly etag: string;
  readonly plain: Buffer;
  readonly gzip: Buffer;
  readonly brotli: Buffer;
}

/** The page's files by path, compressed once; they hold no data, so that they need no token. */
export function loadAssets(): ReadonlyMap<string, Asset> {
  const assets = new Map<string, Asset>();
  for (const name of readdirSync(PAGE)) {
    if (extname(name) in TYPES) assets.set(`/${name}`, assetOf(name, readFileSync(new URL(name, PAGE))));
  }
  const uplot = join(dirname(createRequire(import.meta.url).resolve("uplot/package.json")), "dist");
  assets.set("/uplot.js", assetOf("uplot.js", readFileSync(join(uplot, "uPlot.iife.min.js"))));
  assets.set("/uplot.css", assetOf("uplot.css", readFileSync(join(uplot, "uPlot.min.css"))));
  assets.set("/", assets.get("/index.html")!);
  return assets;
}

export function mountAssets(app: FastifyInstance): void {
  for (const [path, asset] of loadAssets()) app.get(path, (request, reply) => send(request, reply, asset));
}

function assetOf(name: string, plain: Buffer): Asset {
  return {
    type: TYPES[extname(name)]!,
    etag: `"${hash("sha256", plain, "hex").slice(0, 24)}"`,
    plain,
    gzip: gzipSync(plain, { level: 9 }),
    brotli: brotliCompressSync(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }),
  };
}

function send(request: FastifyRequest, reply: FastifyReply, asset: Asset): FastifyReply {
  reply
    .type(asset.type)
    .header("etag", asset.etag)
    .header("cache-control", "no-cache")
    .header("vary", "accept-encoding");
  if (request.headers["if-none-match"] === asset.etag) return reply.code(304).send();
  const accepted = request.headers["accept-encoding"] ?? "";
  if (/\bbr\b/.test(accepted)) return reply.header("content-encoding", "br").send(asset.brotli);
  if (/\bgzip\b/.test(accepted)) return reply.header("content-encoding", "gzip").send(asset.gzip);
  return reply.send(asset.plain);
}
