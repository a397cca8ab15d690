/** How long a class of days is kept: calendar years, or days. */
export interface Keep {
  readonly text: string;
  readonly years: number;
  readonly days: number;
}

/** Named after what people look for. They support such a retention; they do not certify anything. */
export const KEEP_PRESETS: Readonly<Record<string, string>> = {
  pci: "400d",
  soc2: "400d",
  hipaa: "6y",
  finra: "6y",
};

/** `7y`, `400d`, or a preset's name; undefined for anything else. */
export function keepOf(text: string): Keep | undefined {
  const match = /^([1-9]\d{0,4})([dy])$/.exec(KEEP_PRESETS[text] ?? text);
  if (match === null) return undefined;
  const amount = Number(match[1]);
  return { text, years: match[2] === "y" ? amount : 0, days: match[2] === "d" ? amount : 0 };
}

/** The first moment at which a day of this class may be pruned. */
export function keptUntilMs(day: string, keep: Keep): number {
  const end = new Date(`${day}T00:00:00Z`);
  end.setUTCFullYear(end.getUTCFullYear() + keep.years);
  end.setUTCDate(end.getUTCDate() + keep.days + 1);
  return end.getTime();
}
