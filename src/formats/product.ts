/** Whose events these are, as SIEMs file them. */
export const VENDOR = "JumpCloud";
export const PRODUCT = "Directory Insights";
/** The version of the API that serves them. */
export const PRODUCT_VERSION = "1";
