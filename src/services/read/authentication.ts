import {
  type Authentication,
  decide,
  type Factor,
  type FactorKind,
  type Fields,
  flag,
  isFields,
  text,
} from "../../core/meaning.ts";

const FACTORS: ReadonlyMap<string, FactorKind> = new Map([
  ["password", "password"],
  ["totp", "totp"],
  ["otp", "otp"],
  ["push", "push"],
  ["webauthn", "webauthn"],
  ["jumpcloud_go_uv", "webauthn"],
]);

/**
 * The factors that were accepted. `methods` maps a factor's name to an object with `success`. `mfa_meta.type`
 * names the second factor, also where it was refused: then `mfa` is false, or its method failed.
 */
export function authentication(
  event: Fields,
  methods: unknown,
  more: Partial<Authentication> = {},
): Authentication {
  const mfa = flag(event, "mfa");
  const type = text(event.mfa_meta, "type");
  const factors: Factor[] = [];
  const second = type && factorKind(decide(type));
  let isAccepted = mfa === undefined || decide(mfa);
  if (isFields(methods)) {
    for (const name in methods) {
      const method = methods[name];
      if (!isFields(method)) continue;
      const kind = factorKind(name);
      if (method.success === true) {
        if (type === undefined || (name !== decide(type) && (kind !== second || kind === "other")))
          factors.push({ kind, name });
      } else if (kind === second) isAccepted = false;
    }
  }
  if (type && second && isAccepted) factors.unshift({ kind: second, name: decide(type), from: type });
  return { mfa, factors, ...more };
}

function factorKind(name: string): FactorKind {
  return FACTORS.get(name) ?? (name.endsWith("_protect") ? "push" : "other");
}
