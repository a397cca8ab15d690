/** What a sink needs again when it is opened; committed together with the position. JSON. */
export type SinkState = { readonly [key: string]: unknown };
