export async function runMutants(): Promise<boolean> {
  return false;
}
