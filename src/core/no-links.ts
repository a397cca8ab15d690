const CODES = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EMLINK"]);

/** Whether a link failed because the file system has no hard links (exFAT, some network file systems). */
export function hasNoLinks(error: unknown): boolean {
  return CODES.has((error as NodeJS.ErrnoException | undefined)?.code ?? "");
}
