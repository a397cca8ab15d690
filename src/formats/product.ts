/** The vendor and product that SIEMs show for these events. */
export const VENDOR = "JumpCloud";
export const PRODUCT = "Directory Insights";
/** The version of the API that serves them. */
export const PRODUCT_VERSION = "1";
