import { accessRules, systemRules } from "./access.ts";
import { eventRules } from "./events.ts";
import { insightsRules } from "./insights.ts";
import { managementRules } from "./management.ts";
import type { Rule } from "./rule.ts";
import { searchRules } from "./search.ts";

/** Every rule of the specification that is checked. Those that move the clock come last. */
export const rules: readonly Rule[] = [
  ...insightsRules,
  ...searchRules,
  ...accessRules,
  ...systemRules,
  ...managementRules,
  ...eventRules,
];
