/** The checks of `verify`. A test disables each in turn and expects a damaged archive to pass. */
export const CHECKS = [
  "checkpoint signature",
  "earlier checkpoint",
  "numbered checkpoints",
  "log entries",
  "log files",
  "leaves.jsonl",
  "keys.txt",
  "policy.json",
  "texts",
  "cosignatures",
  "manifest hash",
  "manifest tree",
  "lines",
  "line hash",
  "ranges",
  "range hash",
  "frames",
  "events tree",
  "data file hash",
  "seek table",
  "unexpected files",
  "missing files",
  "age",
] as const;
export type Check = (typeof CHECKS)[number];

export interface Finding {
  readonly check: Check;
  /** The file or log entry that it is about: `events/…`, `log entry 12`. */
  readonly subject: string;
  /** As `INVALID: hash value does not match`. */
  readonly message: string;
}

export interface Findings {
  readonly list: readonly Finding[];
  /** Findings that are not in the list. */
  readonly leftOut: number;
  /** Notes a finding unless the condition holds; gives the condition back. */
  expect(check: Check, isFine: boolean, subject: string, message: string): boolean;
  /** Notes a finding of somebody else. */
  add(finding: Finding): void;
  isOn(check: Check): boolean;
}

/** Findings beyond this many are only counted: a lost disk would otherwise fill the memory and the screen. */
const FINDINGS_MAX = 10_000;

export function createFindings(disabled: readonly Check[] = []): Findings {
  const list: Finding[] = [];
  const off = new Set(disabled);
  let leftOut = 0;
  function add(finding: Finding): void {
    if (list.length < FINDINGS_MAX) list.push(finding);
    else leftOut++;
  }
  return {
    list,
    get leftOut() {
      return leftOut;
    },
    add,
    isOn: (check) => !off.has(check),
    expect(check, isFine, subject, message) {
      if (isFine || off.has(check)) return true;
      add({ check, subject, message });
      return false;
    },
  };
}
