/** A leap day is left to the caller. */
const MONTH_DAYS: usize = memory.data<u8>([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]);

/**
 * Milliseconds since the epoch of `yyyy-mm-ddTHH:mm:ss[.fraction]Z`, cut to whole ones; NaN where the text is
 * anything else, which may be a time too.
 */
export function timeMs(start: usize, end: usize): f64 {
  const length = <i32>(end - start);
  if (length < 20 || load<u8>(end - 1) != 0x5a || load<u8>(start, 10) != 0x54) return NaN;
  if (load<u8>(start, 4) != 0x2d || load<u8>(start, 7) != 0x2d) return NaN;
  if (load<u8>(start, 13) != 0x3a || load<u8>(start, 16) != 0x3a) return NaN;
  const century = twoDigits(start);
  const yearOfCentury = twoDigits(start + 2);
  const month = twoDigits(start + 5);
  const day = twoDigits(start + 8);
  const hour = twoDigits(start + 11);
  const minute = twoDigits(start + 14);
  const second = twoDigits(start + 17);
  if ((century | yearOfCentury | month | day | hour | minute | second) < 0) return NaN;
  if (century < 10 || month < 1 || month > 12 || day < 1 || day > <i32>load<u8>(MONTH_DAYS + month)) return NaN;
  if (hour > 23 || minute > 59 || second > 59) return NaN;
  const fraction = length == 20 ? 0 : fractionMs(start + 19, end - 1);
  if (fraction < 0) return NaN;
  const days = daysSinceEpoch(century * 100 + yearOfCentury, month, day);
  return <f64>days * 86_400_000 + <f64>(((hour * 60 + minute) * 60 + second) * 1000 + fraction);
}

/** Of a point and at least one digit; -1 where there is anything else. */
function fractionMs(start: usize, end: usize): i32 {
  if (load<u8>(start) != 0x2e || end - start < 2) return -1;
  let ms = 0;
  let weight = 100;
  for (let at = start + 1; at < end; at++) {
    const digit = <i32>load<u8>(at) - 0x30;
    if (<u32>digit > 9) return -1;
    ms += digit * weight;
    weight /= 10;
  }
  return ms;
}

/** Negative where there are no two digits. */
function twoDigits(at: usize): i32 {
  const tens = <i32>load<u8>(at) - 0x30;
  const ones = <i32>load<u8>(at, 1) - 0x30;
  return <u32>tens <= 9 && <u32>ones <= 9 ? tens * 10 + ones : -1;
}

/** Days of the proleptic Gregorian calendar; the year is counted from March, so that a leap day comes last. */
function daysSinceEpoch(year: i32, month: i32, day: i32): i32 {
  const shifted = month <= 2 ? year - 1 : year;
  const era = shifted / 400;
  const yearOfEra = shifted - era * 400;
  const dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear;
  return era * 146_097 + dayOfEra - 719_468;
}
