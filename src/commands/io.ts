/** The streams, environment and signals of a command. main.ts makes them from `process`; tests make their own. */
export interface Io {
  readonly stdout: NodeJS.WritableStream;
  readonly stderr: NodeJS.WritableStream;
  readonly stdin: NodeJS.ReadableStream;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborts on SIGINT and SIGTERM. */
  readonly signal: AbortSignal;
  /** True where a person watches stdout. */
  readonly interactive: boolean;
  /** How this program is started: node and the script. Absent where a process of its own cannot be started. */
  readonly program?: readonly string[];
  /** The memory of this process in bytes, where it can be told. */
  memoryBytes?(): number;
  /** Ends this process at once, as kill -9 would: for work in a library that cannot be stopped otherwise. */
  kill?(): void;
  /** The exit code that the program will end with; 0 unless a command sets it. */
  setExitCode(code: number): void;
}
