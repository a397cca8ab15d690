/**
 * The one way to change the state. Calls run one after the other, each in a transaction of its own; the promise
 * resolves with the result of `work` when the change is durable, and rejects without any change when `work`
 * throws. `work` is synchronous, and has no other effect than on the state.
 */
export type Change = <Result>(work: () => Result) => Promise<Result>;
