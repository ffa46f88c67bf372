import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { at, get, order } from "./api";
import { ask } from "./ask";
import { AuditForm, AuditRun } from "./auditrun";
import type { Audits, Recorder } from "./auditwords";
import { broken } from "./auditwords";
import { names, sample } from "./live";
import { refused } from "./rights";
import { stateKind, stateText } from "./runs";
import { Badge, Card, NodePicker, Oops, Opened, Table, say, tell, usePoll } from "./ui";
import { bytes, count, moment, short } from "./words";

type Answer = Recorder | { node: string; error: string };

/** What became of messages: who records it, and what the jobs found. */
export function Audit() {
  const node = useSignal("");
  const picked = useSignal("");
  const turn = useSignal(0);
  const name = node.value || sample.value?.asked || "";
  const all = names.value;
  const recorders = usePoll<Answer[]>(
    () =>
      Promise.all(
        all.map((one) =>
          get<Recorder>(at(one, "/audit")).catch((error) => ({ node: one, error: error instanceof Error ? error.message : String(error) })),
        ),
      ),
    3,
    [],
    `${all.join(" ")} ${turn.value}`,
  );
  const { data, error } = usePoll<Audits | null>(() => (name ? get(at(name, "/audit/reports")) : Promise.resolve(null)), 2, [name], turn.value);
  const may = refused("admin", "Switching a recorder");
  const turnTo = async (one: Recorder) => {
    const off = one.enabled;
    if (off && !(await ask("Stop recording?", `What becomes of messages at ${one.node} is recorded no more, until it is switched on again or the node is started anew. The audit will show the time as a hole.`, "stop recording"))) return;
    try {
      await order("POST", at(one.node, "/audit"), { enable: !off });
      tell(`${short(one.node)} ${off ? "records no more" : "records"}`);
    } catch (problem) {
      say(problem);
    }
    turn.value++;
  };
  // What runs is shown, and stays when it is over.
  useEffect(() => {
    if (data?.running && !picked.value) picked.value = data.running;
  }, [data?.running]);
  const shown = picked.value;
  return (
    <>
      <Card title="Recorders of all nodes" aside={may || "what becomes of each message, as Parquet files"}>
        <Table
          label="Recorders"
          head={["Node", "State", "Share", "Messages", "Events", "Files", "Size", "Oldest", "Gaps", "Events lost", "In memory", ""]}
          empty="Waiting for the nodes…"
          rows={(recorders.data ?? []).map((one) =>
            "error" in one
              ? [<strong>{short(one.node)}</strong>, <Badge kind="bad">silent</Badge>, <span class="oops">{one.error}</span>]
              : [
                  <strong>{short(one.node)}</strong>,
                  <Badge kind={one.recording ? "good" : one.enabled ? "bad" : "dim"}>{one.recording ? "records" : one.enabled ? "broken: see its log" : "off"}</Badge>,
                  `${(one.sample * 100).toLocaleString("en", { maximumFractionDigits: 1 })} %`,
                  count(one.messages),
                  count(one.recorded),
                  count(one.files),
                  bytes(one.bytes),
                  one.oldest ? moment(one.oldest) : "",
                  one.gaps ? <Badge kind="warn">{count(one.gaps)}</Badge> : "0",
                  one.dropped ? <Badge kind="bad">{count(one.dropped)}</Badge> : "0",
                  `${count(one.buffered)} of ${count(one.buffer)}`,
                  <button class="small" disabled={!!may} title={may} aria-label={`${one.enabled ? "stop" : "start"} recording at ${short(one.node)}`} onClick={() => turnTo(one)}>
                    {one.enabled ? "stop" : "start"}
                  </button>,
                ],
          )}
        />
      </Card>
      <Card title="Run an audit" aside={<NodePicker names={all} value={name} onPick={(one) => { node.value = one; picked.value = ""; }} />}>
        <Oops error={error} />
        {data && <AuditForm told={data} node={name} onStart={(id) => { picked.value = id; turn.value++; }} />}
      </Card>
      {shown && (
        <Opened key={`${name} ${shown}`}>
          <AuditRun node={name} id={shown} onChange={() => turn.value++} onClose={() => (picked.value = "")} />
        </Opened>
      )}
      <Card title={`Reports at ${short(name)}`} aside={data ? `${data.items.length} kept` : ""}>
        <Table
          label="Reports"
          head={["Job", "Made", "From", "To", "Of nodes", "By", "State", "Broken promises"]}
          empty={error ? "not known" : "No audit was run at this node yet."}
          onPick={(row) => (picked.value = data!.items[row]!.id)}
          rows={(data?.items ?? []).map((run) => [
            <strong>{run.order.job ?? run.id}</strong>,
            <time>{moment(run.began_at)}</time>,
            run.from.slice(0, 19).replace("T", " "),
            run.to.slice(0, 19).replace("T", " "),
            run.nodes.map(short).join(", "),
            run.by,
            <Badge kind={stateKind(run.state)}>{run.state === "kept" && broken(run) ? "done" : stateText[run.state]}</Badge>,
            broken(run) || run.says || (run.state === "running" ? "" : "none"),
          ])}
        />
      </Card>
    </>
  );
}
