// What drills and audits have in common: how a run stands, and how it is stopped or removed.
import { at, order } from "./api";
import { ask } from "./ask";
import { say, tell } from "./ui";

export type State = "running" | "kept" | "broken" | "failed" | "stopped" | "interrupted" | "elsewhere";

export const stateKind = (state: State) =>
  state === "kept" ? "good" : state === "running" ? "warn" : state === "broken" || state === "failed" ? "bad" : "dim";

export const stateText: Record<State, string> = {
  running: "running",
  kept: "promises kept",
  broken: "promises broken",
  failed: "failed",
  stopped: "stopped",
  interrupted: "interrupted",
  elsewhere: "put here",
};

/** Stop the run that goes on, or remove one that is over, after a question; whether it was done. */
export async function end(node: string, path: string, run: { id: string; state: State }): Promise<boolean> {
  const running = run.state === "running";
  const sure = running
    ? await ask("Stop this run?", `${run.id} ends without a verdict; what it started is ended, too.`, "stop it")
    : await ask("Remove this run?", `${run.id}, its figures and its report are deleted from the disc of ${node}.`, "remove it");
  if (!sure) return false;
  try {
    // One that has ended while the question stood is not meant to be removed.
    const only = running ? { running: "true" } : {};
    await order("DELETE", at(node, `${path}/${encodeURIComponent(run.id)}`), undefined, only);
    tell(running ? "stopped" : "removed");
    return true;
  } catch (error) {
    say(error);
    return false;
  }
}
