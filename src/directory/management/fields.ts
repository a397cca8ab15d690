import { z } from "zod";

/**
 * Fields of records that the service gives: a value of another type than the specification's is read as
 * absent, because one odd field must not hide a record. What is changed is always the raw record.
 */
export const textField = z.string().nullish().catch(undefined);
export const flagField = z.boolean().nullish().catch(undefined);
export const numberField = z.number().nullish().catch(undefined);
export const record = z.record(z.string(), z.unknown()).nullish().catch(undefined);
export const records = z.array(z.record(z.string(), z.unknown())).nullish().catch(undefined);

/** Whatever JSON came, or nothing: for answers whose body the specification does not show. */
export const anything: z.ZodType<unknown> = z.unknown();

/** An object with any fields. */
export const rawField = z.record(z.string(), z.unknown());
export type Raw = z.output<typeof rawField>;
