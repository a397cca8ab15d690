export type UserState = "STAGED" | "ACTIVATED";

export interface User {
  readonly id: string;
  readonly organization: string;
  readonly username: string;
  readonly email: string;
  readonly firstname: string;
  readonly lastname: string;
  readonly state: UserState;
  readonly suspended: 0 | 1;
  readonly source: string;
  readonly attributes: string;
}
