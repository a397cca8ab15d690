/** A request as it leaves the program. */
export interface Request {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  /** Every x-org-id line. */
  readonly organizations: readonly string[];
  /** x-provider-id */
  readonly provider: string | undefined;
  readonly key: string | undefined;
  readonly body: string;
}

/** An answer, or the way in which there is none. */
export type Answer =
  | {
      readonly kind: "answer";
      readonly status: number;
      readonly headers: Readonly<Record<string, string>>;
      readonly body: string;
    }
  | { readonly kind: "refused" | "cut_head" | "hang" }
  | {
      readonly kind: "cut_body";
      readonly status: number;
      readonly headers: Readonly<Record<string, string>>;
      readonly body: string;
    };

export function json(status: number, body: unknown, headers: Record<string, string> = {}): Answer {
  return { kind: "answer", status, headers, body: JSON.stringify(body) };
}
