// Numbers and times as people read them.
export const short = (node: string) => node.replace(/@127\.0\.0\.1$/, "");

/** The part before the @, which says enough where little fits. */
export const brief = (node: string) => node.split("@")[0]!;

export function count(value: number): string {
  if (value >= 1e6) return `${(value / 1e6).toFixed(value >= 1e7 ? 0 : 1)} M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(value >= 1e5 ? 0 : 1)} k`;
  return value >= 99.95 || Number.isInteger(value) ? Math.round(value).toLocaleString("en") : value.toFixed(1);
}

export const many = (number: number, what: string) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;

export function bytes(value: number): string {
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]] as const)
    if (value >= size) return `${(value / size).toFixed(value >= 10 * size ? 0 : 1)} ${unit}`;
  return `${Math.round(value)} B`;
}

export function span(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60]] as const)
    if (seconds >= 2 * size) return `${Math.floor(seconds / size)} ${unit}`;
  return `${seconds < 10 && !Number.isInteger(seconds) ? seconds.toFixed(1) : Math.floor(seconds)} s`;
}

export const clock = (seconds: number) =>
  seconds ? new Date(seconds * 1000).toLocaleTimeString("en-GB", { hour12: false }) : "";

/** The date, by the clock of who looks. */
export const day = (seconds: number) => new Date(seconds * 1000).toLocaleDateString("sv");

/** The time of day to the millisecond. */
export const instant = (seconds: number) =>
  seconds ? `${clock(seconds)}.${String(Math.floor((seconds % 1) * 1000)).padStart(3, "0")}` : "";

export const moment = (seconds: number) =>
  seconds ? new Date(seconds * 1000).toISOString().replace("T", " ").slice(0, 19) : "";
