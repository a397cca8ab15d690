import { rowOf } from "./rows-1.8.0.ts";
import type { ClassName, OcsfClass, OcsfSchema } from "./schema.ts";

const IAM = { category: 3, categoryName: "Identity & Access Management" };
const APPLICATION = { category: 6, categoryName: "Application Activity" };
const OWN = { actor: false, device: true };
const BY_PROFILE = { actor: true, device: true };

const classes: Readonly<Record<ClassName, OcsfClass>> = {
  base_event: {
    uid: 0,
    name: "Base Event",
    category: 0,
    categoryName: "Uncategorized",
    activities: {},
    hostProfile: BY_PROFILE,
  },
  authentication: {
    uid: 3002,
    name: "Authentication",
    ...IAM,
    activities: { 1: "Logon", 2: "Logoff" },
    hostProfile: OWN,
  },
  account_change: {
    uid: 3001,
    name: "Account Change",
    ...IAM,
    activities: {
      1: "Create",
      2: "Enable",
      3: "Password Change",
      4: "Password Reset",
      5: "Disable",
      6: "Delete",
      9: "Lock",
      10: "MFA Factor Enable",
      11: "MFA Factor Disable",
      12: "Unlock",
    },
    hostProfile: OWN,
  },
  entity_management: {
    uid: 3004,
    name: "Entity Management",
    ...IAM,
    activities: {
      1: "Create",
      2: "Read",
      3: "Update",
      4: "Delete",
      5: "Move",
      6: "Enroll",
      7: "Unenroll",
      8: "Enable",
      9: "Disable",
      10: "Activate",
      11: "Deactivate",
      12: "Suspend",
      13: "Resume",
    },
    hostProfile: OWN,
  },
  user_access: {
    uid: 3005,
    name: "User Access Management",
    ...IAM,
    activities: { 1: "Assign Privileges", 2: "Revoke Privileges" },
    hostProfile: OWN,
  },
  group_management: {
    uid: 3006,
    name: "Group Management",
    ...IAM,
    activities: {
      1: "Assign Privileges",
      2: "Revoke Privileges",
      3: "Add User",
      4: "Remove User",
      5: "Delete",
      6: "Create",
      7: "Add Subgroup",
      8: "Remove Subgroup",
    },
    hostProfile: OWN,
  },
  detection_finding: {
    uid: 2004,
    name: "Detection Finding",
    category: 2,
    categoryName: "Findings",
    activities: { 1: "Create", 2: "Update", 3: "Close" },
    hostProfile: { actor: true, device: false },
  },
  device_config_state_change: {
    uid: 5019,
    name: "Device Config State Change",
    category: 5,
    categoryName: "Discovery",
    activities: { 1: "Log" },
    hostProfile: { actor: false, device: false },
  },
  web_resources_activity: {
    uid: 6001,
    name: "Web Resources Activity",
    ...APPLICATION,
    activities: {
      1: "Create",
      2: "Read",
      3: "Update",
      4: "Delete",
      6: "Import",
      7: "Export",
      8: "Share",
    },
    hostProfile: BY_PROFILE,
  },
  application_lifecycle: {
    uid: 6002,
    name: "Application Lifecycle",
    ...APPLICATION,
    activities: { 1: "Install", 2: "Remove", 8: "Update" },
    hostProfile: BY_PROFILE,
  },
};

export const ocsf180: OcsfSchema = { version: "1.8.0", classes, rowOf };
