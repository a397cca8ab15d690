import kafkajs from "kafkajs";
import { describe, expect, test } from "vitest";
import {
  DecisionNeededError,
  PausedError,
  RejectedEventsError,
  RetryableError,
  TooLargeError,
} from "../../src/core/errors.ts";
import { inTermsOfDelivery, isTooLarge } from "../../src/sinks/kafka/errors.ts";

/** The errors as kafkajs throws them, with its own flags, which are not to be relied on. */
function protocolError(type: string, retriable = false): Error {
  const error = { type, code: 1, retriable, name: "", message: `the broker says ${type}` };
  return new kafkajs.KafkaJSProtocolError(error);
}

function exceeded(cause: Error): Error {
  return new kafkajs.KafkaJSNumberOfRetriesExceeded(cause, { retryCount: 5, retryTime: 300 });
}

/** Its type declares no parameters, its code passes them on. */
function loginError(message: string): Error {
  return Reflect.construct(kafkajs.KafkaJSSASLAuthenticationError, [message]) as Error;
}

const RETRIED = [
  "INVALID_PRODUCER_EPOCH",
  "CONCURRENT_TRANSACTIONS",
  "NOT_COORDINATOR_FOR_GROUP",
  "GROUP_COORDINATOR_NOT_AVAILABLE",
  "GROUP_LOAD_IN_PROGRESS",
  "NOT_LEADER_FOR_PARTITION",
  "NOT_ENOUGH_REPLICAS",
  "REQUEST_TIMED_OUT",
  "UNKNOWN_PRODUCER_ID",
  "OUT_OF_ORDER_SEQUENCE_NUMBER",
  "INVALID_TXN_STATE",
  "KAFKAJS_UNKNOWN_ERROR_CODE",
];

const PAUSED = [
  "TOPIC_AUTHORIZATION_FAILED",
  "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
  "CLUSTER_AUTHORIZATION_FAILED",
  "SASL_AUTHENTICATION_FAILED",
  "UNSUPPORTED_SASL_MECHANISM",
  "INVALID_TRANSACTION_TIMEOUT",
  "INVALID_REPLICATION_FACTOR",
  "POLICY_VIOLATION",
  "INVALID_TOPIC_EXCEPTION",
];

describe("kafka's errors in terms of delivery", () => {
  test.each(RETRIED)("%s is tried again", (type) => {
    for (const error of [protocolError(type), exceeded(protocolError(type, true))]) {
      const mapped = inTermsOfDelivery(error, "doing") as Error;
      expect(mapped).toBeInstanceOf(RetryableError);
      expect(mapped.message).toBe(`doing: the broker says ${type}`);
      expect(mapped.cause).toBe(error);
    }
  });

  test.each(PAUSED)("%s pauses with a remedy", (type) => {
    for (const error of [protocolError(type), exceeded(protocolError(type))]) {
      const mapped = inTermsOfDelivery(error, "doing");
      expect(mapped).toBeInstanceOf(PausedError);
      expect((mapped as PausedError).remedy).not.toBe("");
    }
  });

  test("a failed creation of topics is reported by its first error", () => {
    const aggregate = new kafkajs.KafkaJSAggregateError("Topic creation errors", [
      protocolError("POLICY_VIOLATION") as never,
    ]);
    expect(inTermsOfDelivery(aggregate, "doing")).toBeInstanceOf(PausedError);
  });

  test.each(["MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD", "INVALID_TIMESTAMP"])(
    "R27 %s halves a batch, and rejects a record that is alone",
    (type) => {
      expect(inTermsOfDelivery(protocolError(type), "doing", 2)).toBeInstanceOf(TooLargeError);
      const alone = inTermsOfDelivery(protocolError(type), "doing", 1);
      expect(alone).toBeInstanceOf(RejectedEventsError);
      expect((alone as RejectedEventsError).rejected).toEqual([
        { index: 0, reason: `the broker says ${type}` },
      ]);
    },
  );

  test("too large is found behind retries that were exceeded", () => {
    expect(isTooLarge(exceeded(protocolError("MESSAGE_TOO_LARGE")))).toBe(true);
    expect(isTooLarge(exceeded(protocolError("INVALID_RECORD")))).toBe(false);
    expect(isTooLarge("MESSAGE_TOO_LARGE")).toBe(false);
  });

  test("connections that fail are tried again, certificates that fail are not", () => {
    const refused = new kafkajs.KafkaJSConnectionError("Connection error: connect", { code: "ECONNREFUSED" });
    expect(inTermsOfDelivery(exceeded(refused), "doing")).toBeInstanceOf(RetryableError);
    const timedOut = new kafkajs.KafkaJSRequestTimeoutError("Request timed out");
    expect(inTermsOfDelivery(timedOut, "doing")).toBeInstanceOf(RetryableError);
    for (const code of ["SELF_SIGNED_CERT_IN_CHAIN", "CERT_HAS_EXPIRED", "ERR_TLS_CERT_ALTNAME_INVALID"]) {
      const error = new kafkajs.KafkaJSConnectionError("Connection error: certificate", { code });
      expect(inTermsOfDelivery(exceeded(error), "doing")).toBeInstanceOf(PausedError);
    }
  });

  test("a login that is refused pauses, one that is cut off is tried again", () => {
    const refused = loginError("SASL PLAIN authentication failed: Invalid");
    expect(inTermsOfDelivery(refused, "doing")).toBeInstanceOf(PausedError);
    const cut = loginError("SASL PLAIN authentication failed: Closed connection");
    expect(inTermsOfDelivery(cut, "doing")).toBeInstanceOf(RetryableError);
  });

  test("our own errors pass unchanged", () => {
    for (const error of [
      new RetryableError("a"),
      new PausedError("a", "b"),
      new DecisionNeededError("a", []),
    ]) {
      expect(inTermsOfDelivery(error, "doing")).toBe(error);
      expect(inTermsOfDelivery(new Error("around", { cause: error }), "doing")).toBe(error);
    }
  });

  test.each([
    new Error("Broker not connected"),
    new TypeError("undefined is not a function"),
    exceeded(new Error("Broker not connected")),
    "not even an error",
  ])("R38 an unknown error is tried again: %s", (unknown) => {
    const mapped = inTermsOfDelivery(unknown, "doing");
    expect(mapped).toBeInstanceOf(RetryableError);
    expect(mapped.message).toMatch(/^doing: \S/);
    expect(mapped.cause).toBe(unknown);
  });
});
