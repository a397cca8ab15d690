import { z } from "zod";
import { connectionFields } from "../../core/http/config.ts";
import { secretSchema } from "../../core/secret.ts";
import { compressionSchema, objectFields } from "../objects/config.ts";

const entraSchema = z
  .strictObject({
    tenantId: z
      .string()
      .regex(/^[\w.-]+$/, { error: "the tenant's id or domain" })
      .meta({ description: "The Entra tenant." }),
    clientId: z.string().min(1).meta({ description: "The application (client) id." }),
    clientSecret: secretSchema("The application's client secret."),
    authority: z
      .url({ protocol: /^https?$/ })
      .default("https://login.microsoftonline.com")
      .meta({ description: "Where tokens come from; another one in sovereign clouds." }),
    scope: z.string().min(1).default("https://storage.azure.com/.default").meta({
      description: "What tokens are for.",
    }),
  })
  .meta({ description: "Logs in as an application; it needs the role Storage Blob Data Contributor." });

export const azureBlobSchema = z
  .strictObject({
    account: z
      .string()
      .regex(/^[a-z0-9]{3,24}$/, { error: "3 to 24 small letters and digits" })
      .meta({ description: "The storage account." }),
    container: z
      .string()
      .regex(/^[a-z0-9](-?[a-z0-9]){2,62}$/, { error: "3 to 63 small letters, digits and single hyphens" })
      .meta({ description: "The container." }),
    endpoint: z
      .url({ protocol: /^https?$/ })
      .optional()
      .meta({ description: "The account's address; by default https://ACCOUNT.blob.core.windows.net." }),
    accountKey: secretSchema("One of the account's access keys.").optional(),
    sas: secretSchema(
      "A shared access signature (the query of its address) with the rights create, read and, for check, list.",
    ).optional(),
    entra: entraSchema.optional(),
    tier: z.enum(["Hot", "Cool", "Cold", "Archive"]).optional().meta({
      description: "The access tier of the blobs; by default the account's.",
    }),
    compression: compressionSchema.default("gzip"),
    ...objectFields,
    ...connectionFields,
  })
  .superRefine(({ accountKey, sas, entra }, check) => {
    if ([accountKey, sas, entra].filter((way) => way !== undefined).length !== 1)
      check.addIssue({ code: "custom", message: "set exactly one of accountKey, sas and entra" });
  });

export type AzureBlobConfig = z.output<typeof azureBlobSchema>;
