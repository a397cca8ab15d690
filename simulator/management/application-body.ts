import { z } from "zod";

/** The tooltip of a setting: a template and the variables that it shows. */
const tooltip = z.looseObject({
  template: z.string().optional(),
  variables: z.looseObject({ icon: z.string().optional(), message: z.string().optional() }).optional(),
});

const members = {
  label: z.string(),
  position: z.number(),
  readOnly: z.boolean(),
  required: z.boolean(),
  tooltip,
  type: z.string(),
  visible: z.boolean(),
};

/** A request may carry only some members of an entry, for example its value. */
const flagSetting = z.looseObject({ ...members, value: z.boolean() }).partial();
const textSetting = z
  .looseObject({ ...members, options: z.unknown(), toggle: z.unknown(), value: z.string() })
  .partial();
const listSetting = z
  .looseObject({
    ...members,
    options: z.unknown(),
    toggle: z.unknown(),
    mutable: z.boolean(),
    value: z.array(
      z
        .looseObject({
          name: z.string(),
          readOnly: z.boolean(),
          required: z.boolean(),
          value: z.string(),
          visible: z.boolean(),
        })
        .partial(),
    ),
  })
  .partial();
const typed = <Value>(value: z.ZodType<Value>) =>
  z.looseObject({ type: z.string(), value, readOnly: z.boolean() }).partial();
const claimSetting = z
  .looseObject({
    type: z.string(),
    visible: z.boolean(),
    sendAmrClaim: typed(z.boolean()),
    authnContextMode: typed(z.string()),
    singleAuthnContextValue: typed(z.string()),
    authnContextMappings: typed(z.array(z.looseObject({}))),
  })
  .partial();

/** Entries that the specification describes; those of a template's own are any object. */
const config = z
  .object({
    spErrorFlow: flagSetting,
    signAssertion: flagSetting,
    signResponse: flagSetting,
    acsUrl: textSetting,
    idpCertificate: textSetting,
    idpEntityId: textSetting,
    idpPrivateKey: textSetting,
    spEntityId: textSetting,
    constantAttributes: listSetting,
    databaseAttributes: z.looseObject({ position: z.number().optional() }),
    authClaimConfiguration: claimSetting,
  })
  .partial()
  .catchall(z.looseObject({}));

const fields = z.object({
  active: z.boolean(),
  beta: z.boolean(),
  color: z.string(),
  config,
  databaseAttributes: z.array(z.looseObject({})),
  description: z.string(),
  displayLabel: z.string().min(1),
  displayName: z.string().min(1),
  learnMore: z.string(),
  logo: z.looseObject({ color: z.string().optional(), url: z.string().optional() }),
  name: z.string().min(1),
  sso: z
    .looseObject({
      type: z.string(),
      beta: z.boolean(),
      jit: z.boolean(),
      idpCertExpirationAt: z.iso.datetime({ offset: true }).nullable(),
      hidden: z.boolean(),
    })
    .partial(),
  ssoUrl: z.string().regex(/^[A-Za-z0-9._~-]{1,200}$/, {
    error: "must be a slug: letters, digits, dots, dashes, underscores and tildes",
  }),
  parentApp: z.string(),
  referenceApplications: z.array(z.looseObject({ id: z.string(), orgId: z.string() })),
  aiReady: z.boolean(),
});

export const createBody = fields
  .partial()
  .required({ name: true, displayLabel: true, displayName: true, ssoUrl: true, config: true });
export const updateBody = fields.partial();
