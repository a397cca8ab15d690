/** One result of `check` or `doctor`, in words that a person can act on. */
export interface CheckFinding {
  readonly subject: string;
  readonly ok: boolean;
  readonly warning?: boolean;
  readonly message: string;
}
