/* The questions that converters ask about texts that they copy. Texts with the same answers are treated alike. */

/** Answers to `addressClass`. */
export const BY_VALUE: i32 = 0;
const NO_ADDRESS: i32 = 1;
const IS_ADDRESS: i32 = 2;

/** Whether `isIP` of node:net accepts the text. Rare forms with both colons and other signs decide by value. */
export function addressClass(start: usize, length: i32): i32 {
  let colons = 0;
  let isHex = true;
  for (let at = 0; at < length; at++) {
    const byte = load<u8>(start + at);
    if (byte == 0x3a) colons++;
    else if (!isHexByte(byte)) isHex = false;
  }
  if (colons == 0) return isIpv4(start, length) ? IS_ADDRESS : NO_ADDRESS;
  if (!isHex || length > 39) return BY_VALUE;
  return isIpv6(start, length) ? IS_ADDRESS : BY_VALUE;
}

function isIpv4(start: usize, length: i32): bool {
  if (length < 7 || length > 15) return false;
  let parts = 0;
  let digits = 0;
  let value = 0;
  for (let at = 0; at <= length; at++) {
    const byte = at == length ? <u8>0x2e : load<u8>(start + at);
    if (byte == 0x2e) {
      if (digits == 0 || value > 255) return false;
      parts++;
      digits = 0;
      value = 0;
      continue;
    }
    if (<u8>(byte - 0x30) > 9 || (digits > 0 && value == 0) || digits == 3) return false;
    value = value * 10 + (byte - 0x30);
    digits++;
  }
  return parts == 4;
}

/** Eight groups of up to four digits, or fewer with one double colon. */
function isIpv6(start: usize, length: i32): bool {
  let groups = 0;
  let digits = 0;
  let isShort = false;
  let at = 0;
  if (load<u8>(start) == 0x3a && (length < 2 || load<u8>(start + 1) != 0x3a)) return false;
  while (at < length) {
    if (load<u8>(start + at) != 0x3a) {
      if (++digits > 4) return false;
      if (digits == 1) groups++;
      at++;
      continue;
    }
    digits = 0;
    at++;
    if (at == length) return false;
    if (load<u8>(start + at) == 0x3a) {
      if (isShort) return false;
      isShort = true;
      at++;
      if (at < length && load<u8>(start + at) == 0x3a) return false;
    }
  }
  return isShort ? groups <= 7 : groups == 8;
}

function isHexByte(byte: u8): bool {
  return <u8>(byte - 0x30) <= 9 || <u8>((byte | 0x20) - 0x61) <= 5;
}

/** The same test as `isEmail` in src/formats/wording.ts. */
export function isEmail(start: usize, length: i32): bool {
  let at = 0;
  while (at < length && isLocalByte(load<u8>(start + at))) at++;
  if (at == 0 || at >= length || load<u8>(start + at) != 0x40) return false;
  const domain = ++at;
  while (at < length && isDomainByte(load<u8>(start + at))) at++;
  if (at == domain || at >= length - 1 || load<u8>(start + at) != 0x2e) return false;
  for (at++; at < length; at++) {
    const byte = load<u8>(start + at);
    if (byte != 0x2e && !isDomainByte(byte)) return false;
  }
  return true;
}

function isDomainByte(byte: u8): bool {
  return <u8>(byte - 0x30) <= 9 || <u8>((byte | 0x20) - 0x61) < 26 || byte == 0x2d;
}

/** A letter, a digit, or one of !#$%&'*+/=?^_`{|}~.- */
function isLocalByte(byte: u8): bool {
  if (isDomainByte(byte) || byte == 0x2e) return true;
  if (byte == 0x21 || (byte >= 0x23 && byte <= 0x27) || byte == 0x2a || byte == 0x2b || byte == 0x2f)
    return true;
  return byte == 0x3d || byte == 0x3f || (byte >= 0x5e && byte <= 0x60) || (byte >= 0x7b && byte <= 0x7e);
}

/** Whether the text contains `/saml` in any case. */
export function hasSaml(start: usize, length: i32): bool {
  for (let at = 0; at + 5 <= length; at++) {
    if (load<u8>(start + at) != 0x2f) continue;
    if ((load<u32>(start + at, 1) | 0x20202020) == 0x6c6d6173) return true;
  }
  return false;
}

/** Whether upper and lower case of the text differ only in ASCII letters, as far as a short look tells. */
export function hasOnlyAsciiCase(start: usize, length: i32): bool {
  for (let at = 0; at < length; at++) {
    const byte = load<u8>(start + at);
    if (byte < 0xc0) continue;
    // U+00E0 to U+00FF are lower case; U+3000 to U+9FFF have no case.
    if (byte == 0xc3 && load<u8>(start + at, 1) >= 0xa0) continue;
    if (byte < 0xe3 || byte > 0xe9) return false;
  }
  return true;
}

/** A time in UTC that exists, with at most nine digits of a fraction: 2026-11-15T17:00:00.123Z */
export function isTime(start: usize, length: i32): bool {
  if (length < 20 || length > 30 || load<u8>(start + length - 1) != 0x5a) return false;
  if (!hasTimeForm(start)) return false;
  const month = twoDigits(start + 5);
  const day = twoDigits(start + 8);
  if (twoDigits(start) < 1 || month < 1 || month > 12 || day < 1 || day > 31) return false;
  // The last day of February decides by its value.
  if (month == 2 && day > 28) return false;
  if (day == 31 && (month == 4 || month == 6 || month == 9 || month == 11)) return false;
  if (twoDigits(start + 11) > 23 || twoDigits(start + 14) > 59 || twoDigits(start + 17) > 59) return false;
  if (length == 20) return true;
  return length > 21 && load<u8>(start + 19) == 0x2e && isDigits(start + 20, length - 21);
}

function hasTimeForm(start: usize): bool {
  return (
    isDigits(start, 4) &&
    load<u8>(start + 4) == 0x2d &&
    isDigits(start + 5, 2) &&
    load<u8>(start + 7) == 0x2d &&
    isDigits(start + 8, 2) &&
    load<u8>(start + 10) == 0x54 &&
    isDigits(start + 11, 2) &&
    load<u8>(start + 13) == 0x3a &&
    isDigits(start + 14, 2) &&
    load<u8>(start + 16) == 0x3a &&
    isDigits(start + 17, 2)
  );
}

function isDigits(start: usize, length: i32): bool {
  for (let at = 0; at < length; at++) if (<u8>(load<u8>(start + at) - 0x30) > 9) return false;
  return true;
}

function twoDigits(start: usize): i32 {
  return (load<u8>(start) - 0x30) * 10 + (load<u8>(start + 1) - 0x30);
}

/** A fraction whose size is below the limit. */
export function isBelow(start: usize, length: i32, limit: i32): bool {
  let value = 0;
  for (let at = load<u8>(start) == 0x2d ? 1 : 0; at < length; at++) {
    const byte = load<u8>(start + at);
    if (byte == 0x2e) return value < limit;
    value = value > 1000 ? value : value * 10 + (byte - 0x30);
  }
  return false;
}

export function isWhole(start: usize, length: i32): bool {
  for (let at = 0; at < length; at++) if (load<u8>(start + at) == 0x2e) return false;
  return true;
}
