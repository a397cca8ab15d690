import type { Connection } from "./account.ts";
import { authOf } from "./auth.ts";
import { exchangeOf } from "./exchange.ts";
import type { ClientOptions } from "./insights.ts";
import { callerOf } from "./management/call.ts";
import { type OrganizationCalls, organizationCalls } from "./management/organizations.ts";
import { openTransport } from "./transport.ts";

/**
 * The management API of one account. Rejections are the errors of errors.ts, or the signal's reason.
 * Reads are repeated with back-off; writes only where the service certainly did not take them.
 */
export interface ManagementClient extends OrganizationCalls {
  close(): Promise<void>;
}

export function openManagement(connection: Connection, options: ClientOptions): ManagementClient {
  const transport = openTransport({
    headersTimeoutMs: connection.headersTimeoutMs,
    bodyTimeoutMs: connection.bodyTimeoutMs,
    ca: options.ca,
    userAgent: options.userAgent,
    connectionsMax: options.connectionsMax ?? 8,
  });
  const auth = authOf(connection.credentials, transport, options.clock);
  const call = callerOf(exchangeOf(transport, auth, options.clock), connection.managementUrl, options.clock);
  return {
    ...organizationCalls(call),
    close: () => transport.close(),
  };
}
