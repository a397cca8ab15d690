import type { ServiceConnection } from "./account.ts";
import { type Auth, authOf, systemAuth } from "./auth.ts";
import { exchangeOf } from "./exchange.ts";
import type { ClientOptions } from "./insights.ts";
import { type ApplicationCalls, applicationCalls } from "./management/applications.ts";
import { type AssociationCalls, associationCalls } from "./management/associations.ts";
import { callerOf } from "./management/call.ts";
import { type ImportCalls, importCalls } from "./management/import-calls.ts";
import { type OrganizationCalls, organizationCalls } from "./management/organizations.ts";
import { type SystemCalls, systemCalls } from "./management/systems.ts";
import type { SystemIdentity } from "./signature.ts";
import { openTransport, type Transport } from "./transport.ts";

/**
 * The management API of one account. Rejections are the errors of errors.ts, or the signal's reason.
 * Reads are repeated with back-off; writes only where the service certainly did not take them.
 */
export interface ManagementClient
  extends OrganizationCalls,
    ApplicationCalls,
    ImportCalls,
    AssociationCalls,
    SystemCalls {
  close(): Promise<void>;
}

type Address = Pick<ServiceConnection, "managementUrl" | "headersTimeoutMs" | "bodyTimeoutMs">;

export function openManagement(connection: ServiceConnection, options: ClientOptions): ManagementClient {
  const transport = transportOf(connection, options);
  const call = callerTo(
    connection,
    transport,
    authOf(connection.credentials, transport, options.clock),
    options,
  );
  return {
    ...organizationCalls(call),
    ...applicationCalls(call),
    ...importCalls(call),
    ...associationCalls(call),
    ...systemCalls(call),
    close: () => transport.close(),
  };
}

export interface SystemClient extends SystemCalls {
  close(): Promise<void>;
}

/** A system that speaks for itself; every endpoint but those of SystemCalls answers 401 to it. */
export function openSystem(address: Address, identity: SystemIdentity, options: ClientOptions): SystemClient {
  const transport = transportOf(address, options);
  const call = callerTo(address, transport, systemAuth(identity, options.clock), options);
  return { ...systemCalls(call), close: () => transport.close() };
}

function transportOf(address: Address, options: ClientOptions): Transport {
  return openTransport({
    headersTimeoutMs: address.headersTimeoutMs,
    bodyTimeoutMs: address.bodyTimeoutMs,
    ca: options.ca,
    userAgent: options.userAgent,
    connectionsMax: options.connectionsMax ?? 8,
    dispatcher: options.dispatcher,
  });
}

function callerTo(address: Address, transport: Transport, auth: Auth, options: ClientOptions) {
  return callerOf(exchangeOf(transport, auth, options.clock), address.managementUrl, options.clock);
}
