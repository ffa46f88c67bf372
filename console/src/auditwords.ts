// What the API tells of recorders and audits; no markup.
import type { State } from "./runs";

export interface Recorder {
  node: string;
  enabled: boolean;
  recording: boolean;
  sample: number;
  dir: string;
  messages: number;
  recorded: number;
  dropped: number;
  gaps: number;
  buffered: number;
  buffer: number;
  files: number;
  bytes: number;
  oldest: number | null;
}
export interface Run {
  id: string;
  node: string;
  state: State;
  order: { job?: string; from?: string; to?: string; fail_on?: string[] };
  by: string;
  began_at: number;
  ended_at: number;
  says: string;
  from: string;
  to: string;
  nodes: string[];
  files: number;
  share: number;
  holes: number;
  problems: number;
  broken: Record<string, number>;
  jobs: Record<string, { numbers: Record<string, number>; says: string[] }>;
  steps: { job: string; seconds: number | null }[];
  report: boolean;
}
export interface Audits {
  dir: string;
  lacks: string;
  running: string;
  items: Run[];
}

export const JOBS: Record<string, string> = {
  report: "all of them, and one page",
  completeness: "lost, doubled, misrouted",
  latency: "how late messages were",
  routes: "routes that were stale, missing or unneeded",
  partitions: "what splits cost",
  hotspots: "topics and clients with most traffic",
  sessions: "sessions that flap, and takeovers",
  anomalies: "what is unlike the hours before",
  queues: "jobs that were lost or done twice",
};
export const PROMISES = [
  ...["lost", "doubled", "late", "misrouted", "undecidable", "missing", "stale", "unneeded", "flapping"],
  ...["lost_jobs", "doubled_jobs", "undecidable_jobs"],
];

/** The promises that were broken, and how often. */
export const broken = (run: Run) =>
  Object.entries(run.broken)
    .filter(([, number]) => number > 0)
    .map(([name, number]) => `${name} ${number.toLocaleString("en")}`)
    .join(", ");
