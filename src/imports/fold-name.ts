/**
 * A name as it is compared: the service stores the values of events in lower case, and a source may compose letters in
 * another way. Programs disagree on the lower case of two letters, "İ" and the "Σ" that ends a word.
 */
export function foldName(name: string): string {
  const lower = name.normalize("NFC").toLowerCase().normalize("NFC");
  return lower.replaceAll("i\u0307", "i").replaceAll("ς", "σ");
}
