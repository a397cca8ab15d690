const LOGIN_SERVICES: ReadonlySet<string> = new Set(["sso", "radius", "ldap"]);
const NO_LOGIN = /(?:^|_)(?:search|srch|compare|unbind|config|settings|server|result)(?:_|$)/;

/**
 * Whether an event type that no table knows is a login. The events of these services are logins, unless
 * a word of the type says something else. So a new type such as `sso_auth_denied` is classified at once.
 */
export function isLoginOf(service: string, eventType: string): boolean {
  return LOGIN_SERVICES.has(service) && !NO_LOGIN.test(eventType);
}
