import { inspect } from "node:util";
import { z } from "zod";

const HIDDEN = "[secret]";

/** Where a secret is stored. */
export type SecretSource = { readonly env: string } | { readonly file: string };

/**
 * A secret prints as `[secret]` in strings, JSON, logs and `inspect`. Only `reveal` returns its value.
 * Config parsing creates it from its source, and the loader sets the value before it is used.
 */
export class Secret {
  readonly #source: SecretSource | undefined;
  #value: string | undefined;

  constructor(source: SecretSource | undefined, value?: string) {
    this.#source = source;
    this.#value = value;
  }

  get source(): SecretSource | undefined {
    return this.#source;
  }

  resolve(value: string): void {
    this.#value = value;
  }

  reveal(): string {
    if (this.#value === undefined) throw new Error("A secret was used before it was loaded.");
    return this.#value;
  }

  toString(): string {
    return HIDDEN;
  }

  toJSON(): string {
    return HIDDEN;
  }

  [Symbol.toPrimitive](): string {
    return HIDDEN;
  }

  [inspect.custom](): string {
    return HIDDEN;
  }
}

/** A secret with a known value, for tests and the demo. */
export function secretOf(value: string): Secret {
  return new Secret(undefined, value);
}

/** `{ env: NAME }` or `{ file: PATH }`; a literal secret in a config file is refused. */
export function secretSchema(description: string) {
  return z
    .union(
      [
        z.strictObject({
          env: z.string().min(1).meta({ description: "The environment variable that holds it." }),
        }),
        z.strictObject({
          file: z.string().min(1).meta({
            description:
              "A file that holds it, readable by its owner alone. Line ends after it do not count.",
          }),
        }),
      ],
      {
        error: () =>
          "a secret is written as { env: NAME } or { file: PATH }, never as its value: put it into an environment variable or a file",
      },
    )
    .transform((source) => new Secret(source))
    .meta({ description });
}
