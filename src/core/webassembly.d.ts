/** The part of the platform's WebAssembly that is used here; Node's types leave it out. */
declare namespace WebAssembly {
  class Module {
    constructor(bytes: Uint8Array);
  }
  class Instance {
    constructor(module: Module);
    readonly exports: unknown;
  }
  class Memory {
    constructor(limits: { readonly initial: number });
    readonly buffer: ArrayBuffer;
    grow(pages: number): number;
  }
}
