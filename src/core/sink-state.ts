/** State that a sink gets back when it is opened; committed together with the position. JSON. */
export type SinkState = { readonly [key: string]: unknown };
