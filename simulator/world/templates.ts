import { applicationNames } from "../generator/words.ts";
import { createRandom } from "../random.ts";

export interface Template {
  readonly _id: string;
  readonly name: string;
  readonly displayName: string;
  readonly config: Readonly<Record<string, unknown>>;
}

/** The template of integrations that import users from a custom REST source. */
export const importTemplate = "custom_import";

/** Template names, the settings that an application of them begins with. They are the same in every world. */
export const templates: readonly Template[] = createTemplates();

function createTemplates(): Template[] {
  const random = createRandom(4242);
  const saml = [
    ...applicationNames,
    ["saml", "Custom SAML Application"] as const,
    ["scim", "Custom SCIM Application"] as const,
  ];
  const all = saml.map(([name, displayName]) => ({
    _id: random.hex24(),
    name,
    displayName,
    config: samlConfig(name),
  }));
  return [
    ...all,
    { _id: random.hex24(), name: importTemplate, displayName: "Custom import", config: importConfig() },
  ];
}

function samlConfig(name: string) {
  return {
    acsUrl: text("ACS URL", 0, `https://${name}.example.test/acs`),
    spEntityId: text("SP entity id", 1, `https://${name}.example.test`),
    idpEntityId: text("IdP entity id", 2, "directory"),
    idpCertificate: text("IdP certificate", 3, ""),
    idpPrivateKey: text("IdP private key", 4, ""),
    signResponse: flag("Sign response", 5, false),
    signAssertion: flag("Sign assertion", 6, true),
    spErrorFlow: flag("Error flow", 7, true),
    constantAttributes: { ...text("Constant attributes", 8, ""), mutable: true, value: [] },
    databaseAttributes: { position: 9 },
    authClaimConfiguration: claims(),
    ...outbound(),
  };
}

function claims() {
  return {
    type: "authClaims",
    visible: true,
    sendAmrClaim: { type: "checkbox", value: false, readOnly: false },
    authnContextMode: { type: "select", value: "single" },
    singleAuthnContextValue: {
      type: "text",
      value: "urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport",
    },
    authnContextMappings: { type: "list", value: [] },
  };
}

function tooltip(message: string) {
  return { template: "{{icon}} {{message}}", variables: { icon: "info", message } };
}

function importConfig() {
  return {
    sourceUrl: text("Source URL", 0, "https://hr.example.test/users"),
    databaseAttributes: { position: 1 },
    ...outbound(),
  };
}

/** Settings of outbound SCIM; the specification does not show theirs. */
function outbound() {
  return {
    scimUrl: text("SCIM endpoint", 20, ""),
    scimToken: text("SCIM token", 21, ""),
    scimEnabled: flag("Outbound SCIM", 22, true),
  };
}

function text(label: string, position: number, value: string) {
  return {
    label,
    options: null,
    position,
    readOnly: false,
    required: false,
    toggle: null,
    tooltip: tooltip(label),
    type: "text",
    value,
    visible: true,
  };
}

function flag(label: string, position: number, value: boolean) {
  return {
    ...{ label, position, readOnly: false, required: false },
    ...{ tooltip: tooltip(label), type: "checkbox", value, visible: true },
  };
}
