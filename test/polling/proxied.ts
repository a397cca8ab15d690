import { type AnswerProxy, startProxy } from "./proxy.ts";
import { openWorld, type World, type WorldOptions } from "./support.ts";

/** A world whose pollers reach the simulator through a proxy that can change its answers. Nothing has been read yet. */
export async function openProxied(
  options: WorldOptions = {},
): Promise<{ readonly world: World; readonly proxy: AnswerProxy }> {
  const world = await openWorld(options);
  const proxy = await startProxy(world.simulator.insightsUrl);
  await world.restart({ account: { ...options.account, insightsUrl: proxy.url } });
  return { world, proxy };
}
