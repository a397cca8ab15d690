/** A table by owner. Owners are named by events: without a prototype a name such as "constructor" means nothing else. */
export function byOwner<Value>(from: Readonly<Record<string, Value>> = {}): Record<string, Value> {
  return Object.assign(Object.create(null) as Record<string, Value>, from);
}
