import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { secretHider } from "../../../src/core/http/hide-secrets.ts";

const SECRET = 'k3y/with+odd "signs" & ümlaut=';

describe("secrets in the words of others", () => {
  test.each([
    ["as it is", SECRET],
    ["in JSON", JSON.stringify({ key: SECRET })],
    ["in JSON with escaped slashes", JSON.stringify(SECRET).replaceAll("/", "\\/")],
    ["percent-encoded", `?key=${encodeURIComponent(SECRET)}`],
    ["percent-encoded in small letters", `?key=${encodeURIComponent(SECRET).toLowerCase()}`],
    ["in a form", new URLSearchParams({ key: SECRET }).toString()],
    ["in base64", Buffer.from(SECRET).toString("base64")],
    ["in base64url", Buffer.from(SECRET).toString("base64url")],
    ["in Basic authentication", Buffer.from(`user:${SECRET}`).toString("base64")],
    ["in Basic authentication of another user", Buffer.from(`me:${SECRET}`).toString("base64")],
    ["in a longer text in base64url", Buffer.from(`abc ${SECRET} and more`).toString("base64url")],
  ])("are hidden %s", (_, said) => {
    const hidden = secretHider([SECRET])(`the server says ${said} was wrong`);
    expect(hidden).toContain("[secret]");
    expect(hidden).not.toContain(said);
    // Decoding what is left does not give the secret back either.
    for (const word of hidden.split(/[\s":]+/))
      expect(Buffer.from(word, "base64").toString()).not.toContain(SECRET.slice(4, 20));
  });

  test.each([
    ["as encodeURIComponent writes it", (secret: string) => encodeURIComponent(secret)],
    ["in HTML", (secret: string) => escaped(secret, { "'": "&#39;", '"': "&#34;" })],
    ["in HTML with named quotes", (secret: string) => escaped(secret, { '"': "&quot;", "'": "&apos;" })],
    [
      "in HTML with a coded slash",
      (secret: string) => escaped(secret, { '"': "&quot;", "'": "&#39;", "/": "&#x2F;" }),
    ],
    [
      "in JSON as Go writes it",
      (secret: string) =>
        JSON.stringify(secret).replaceAll(/[<>&]/g, (sign) => `\\u00${sign.charCodeAt(0).toString(16)}`),
    ],
  ])("are hidden %s, whatever signs they have", (_, write) => {
    for (const secret of ["Passw0rd!/x4711", "Summer'26/abc&<d>", 'qu"ote*(1)'])
      expect(secretHider([secret])(`header was [${write(secret)}] sorry`)).toMatch(
        /^header was \["?\[secret\]"?\] sorry$/,
      );
  });

  test("any secret is hidden in base64 wherever it stands", () => {
    fc.assert(
      fc.property(fc.string({ minLength: 8 }), fc.string(), fc.string(), (secret, before, after) => {
        const said = Buffer.from(before + secret + after).toString("base64");
        expect(secretHider([secret])(said)).toContain("[secret]");
      }),
    );
  });

  test("words too short to be a secret stay", () => {
    expect(secretHider(["ab", ""])("about absence")).toBe("about absence");
  });

  test("a secret that contains another one is hidden whole", () => {
    expect(secretHider(["abcd", "abcdefgh"])("x abcdefgh y abcd")).toBe("x [secret] y [secret]");
  });
});

/** As a library escapes text for HTML, with these forms of quotes and other signs. */
function escaped(text: string, signs: Readonly<Record<string, string>>): string {
  const forms: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", ...signs };
  return text.replaceAll(/./g, (sign) => forms[sign] ?? sign);
}
