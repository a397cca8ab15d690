/** The same type with fields that can be written, for the function that builds it. */
export type Writable<Part> = { -readonly [Key in keyof Part]: Part[Key] };
