import { services } from "../../src/services/index.ts";
import { serviceContract } from "../contract/service.ts";

for (const service of services) serviceContract(service);
