/** The memory of all arrays in a message, each once. */
export function transferOf(message: object): ArrayBuffer[] {
  const views = Object.values(message).filter((value) => ArrayBuffer.isView(value));
  return [...new Set(views.map((view) => view.buffer as ArrayBuffer))];
}
