import type { Clock } from "../../core/clock.ts";
import { type AwsCredentials, defaultCredentials } from "../aws/credentials.ts";
import { presignedUrl } from "../aws/sign.ts";

/** The longest life of a token that Amazon MSK accepts. */
const LIFE_SECONDS = 900;

/** Tokens for Amazon MSK, made from AWS credentials without a request. kafkajs asks before every login. */
export function mskTokenProvider(region: string, clock: Clock): () => Promise<{ value: string }> {
  const source = defaultCredentials(region);
  source.catch(() => {});
  return async () => ({ value: mskToken(region, await (await source)(), clock.now()) });
}

/** A signed address of the action kafka-cluster:Connect, in base64url: MSK's form of an OAUTHBEARER token. */
export function mskToken(region: string, credentials: AwsCredentials, nowMs: number): string {
  const url = presignedUrl(
    {
      method: "GET",
      url: new URL(`https://kafka.${region}.amazonaws.com/?Action=kafka-cluster%3AConnect`),
      headers: {},
      body: "",
      region,
      service: "kafka-cluster",
      credentials,
      nowMs,
    },
    LIFE_SECONDS,
  );
  // Not a part of what is signed.
  return Buffer.from(`${url}&User-Agent=tidemark`).toString("base64url");
}
