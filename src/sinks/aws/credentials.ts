import { PausedError } from "../../core/errors.ts";

export interface AwsCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

export type AwsCredentialsSource = () => Promise<AwsCredentials>;

/**
 * Credentials by the AWS SDK's usual chain: environment, web identity, shared config, container and instance
 * role. The SDK caches them and renews them before they expire.
 */
export async function defaultCredentials(region: string): Promise<AwsCredentialsSource> {
  const { S3Client } = await import("@aws-sdk/client-s3");
  const client = new S3Client({ region });
  return async () => {
    try {
      return await client.config.credentials();
    } catch (cause) {
      throw new PausedError(
        "There are no AWS credentials.",
        "Give the machine a role, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
        { cause },
      );
    }
  };
}
