/** How busy an hour is: office hours on weekdays carry most of the traffic, nights and weekends little. */
export function activity(ms: number): number {
  const date = new Date(ms);
  const hour = date.getUTCHours() + date.getUTCMinutes() / 60;
  const weekend = date.getUTCDay() === 0 || date.getUTCDay() === 6;
  const day = 0.25 + 1.6 * Math.exp(-(((hour - 10) / 2.5) ** 2)) + 1.3 * Math.exp(-(((hour - 15) / 3) ** 2));
  return weekend ? day * 0.3 : day;
}

/** Mean of `activity` over a week, so that rates keep their meaning. */
export const activityMean = mean();

function mean(): number {
  let sum = 0;
  for (let hour = 0; hour < 168; hour++) sum += activity(hour * 3_600_000 + 1_800_000);
  return sum / 168;
}
