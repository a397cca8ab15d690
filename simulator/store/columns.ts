/** Typed arrays that grow together: one row per event, a few dozen bytes each. */
export interface Columns {
  readonly ms: Float64Array;
  readonly ns: Int32Array;
  readonly visibleAt: Float64Array;
  readonly offset: Float64Array;
  readonly length: Uint32Array;
  readonly organization: Uint32Array;
  readonly service: Uint16Array;
}

export function createColumns(capacity: number): Columns {
  return {
    ms: new Float64Array(capacity),
    ns: new Int32Array(capacity),
    visibleAt: new Float64Array(capacity),
    offset: new Float64Array(capacity),
    length: new Uint32Array(capacity),
    organization: new Uint32Array(capacity),
    service: new Uint16Array(capacity),
  };
}

export function growColumns(columns: Columns, capacity: number): Columns {
  const grown = createColumns(capacity);
  for (const name of Object.keys(columns) as (keyof Columns)[]) grown[name].set(columns[name]);
  return grown;
}
