import { file } from "../../src/sinks/file/sink.ts";
import { testSink } from "../contract/sink.ts";
import { linesIn, makeFolder } from "./file-support.ts";

for (const config of [
  { path: "all" },
  { path: "all", rotateSize: 2000, gzip: true },
  { path: "all", rotateSize: 2000, compress: "zstd" },
  { path: "all", compress: "gzip" },
]) {
  testSink(`file ${JSON.stringify(config)}`, {
    can: [],
    async start() {
      const folder = makeFolder();
      return {
        definition: file,
        config: { directory: `${folder.path}/events`, ...config },
        read: async () => linesIn(folder.path),
        normal() {},
        close: () => folder.remove(),
      };
    },
  });
}

testSink("file, with a file per organization, service and date", {
  can: [],
  unordered: true,
  async start() {
    const folder = makeFolder();
    return {
      definition: file,
      config: { directory: `${folder.path}/deeper/events` },
      read: async () => linesIn(folder.path),
      normal() {},
      close: () => folder.remove(),
    };
  },
});
