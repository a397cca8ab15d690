/**
 * Requests at once to a destination for which order does not matter and a repeat is harmless or recognized by the
 * event's identity. While one is in flight, the next one is encoded and compressed.
 */
export const WRITES_MAX = 4;
