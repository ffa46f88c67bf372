import { useSignal } from "@preact/signals";
import { at, get, order } from "./api";
import type { Audits, Run } from "./auditwords";
import { JOBS, PROMISES, broken } from "./auditwords";
import { Report } from "./report";
import { refused } from "./rights";
import { end, stateKind, stateText } from "./runs";
import { Badge, Card, Oops, Table, say, tell, usePoll } from "./ui";
import { count, many, moment, short, span } from "./words";

/** The order of a job over what a node recorded. */
export function AuditForm(props: { told: Audits; node: string; onStart: (id: string) => void }) {
  const { told, node } = props;
  const busy = useSignal(false);
  const may = refused("operator", "Running an audit");
  const start = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const body: Record<string, unknown> = { job: form.get("job"), fail_on: form.getAll("fail_on") };
    for (const key of ["from", "to"]) if (String(form.get(key)).trim()) body[key] = String(form.get(key)).trim();
    busy.value = true;
    try {
      props.onStart((await order<Run>("POST", at(node, "/audit/runs"), body)).id);
      tell("the audit is on its way");
    } catch (error) {
      say(error);
    }
    busy.value = false;
  };
  return (
    <form onSubmit={start}>
      {told.lacks && (
        <p class="banner" role="note">
          <strong>No jobs here:</strong> {told.lacks}. Recording needs none of it: jobs can run on any machine that reads the files, with <code>gossamer audit run</code>.
        </p>
      )}
      {may && <p class="oops">{may}</p>}
      <fieldset disabled={!!may || !!told.lacks}>
        <p class="dim">Judges what {short(node)} recorded in <code>{told.dir}</code>. Nodes that write into one directory are judged together. A small recording takes seconds; for a large one Spark runs beside the node, for a minute or more.</p>
        <div class="fields">
          <label class="two">
            <strong>job</strong>
            <select name="job">{Object.entries(JOBS).map(([job, says]) => <option key={job} value={job}>{job}: {says}</option>)}</select>
          </label>
          <label><strong>from</strong><input name="from" maxLength={40} placeholder="6h ago" autocomplete="off" /><small>Empty: the first that was recorded</small></label>
          <label><strong>to</strong><input name="to" maxLength={40} placeholder="now" autocomplete="off" /><small>Empty: the last</small></label>
        </div>
        <details>
          <summary>Count the run as broken when…</summary>
          <div class="row">{PROMISES.map((one) => <label class="inline" key={one}><input type="checkbox" name="fail_on" value={one} /> {one}</label>)}</div>
        </details>
        <div class="row">
          <button disabled={busy.value || !!told.running}>run the audit</button>
          {told.running && <span class="dim">One at a time: {told.running} is running.</span>}
        </div>
      </fieldset>
    </form>
  );
}

/** One audit: how far it is, or what it found. */
export function AuditRun(props: { node: string; id: string; onChange: () => void; onClose: () => void }) {
  const report = useSignal(false);
  const turn = useSignal(0);
  const { data, error } = usePoll(() => get<Run>(at(props.node, `/audit/reports/${encodeURIComponent(props.id)}`)), 1, [props.node, props.id], turn.value);
  const remove = async () => {
    if (!data || !(await end(props.node, "/audit/reports", data))) return;
    props.onChange();
    if (data.state === "running") turn.value++;
    else props.onClose();
  };
  if (!data) return <Card title={props.id}><Oops error={error} /></Card>;
  const running = data.state === "running";
  const may = refused("operator", running ? "Stopping an audit" : "Removing a report");
  const jobs = Object.entries(data.jobs);
  return (
    <>
      <Card
        title={`Audit ${data.order.job ?? data.id}`}
        aside={
          <>
            <Badge kind={stateKind(data.state)}>{data.state === "kept" && broken(data) ? "done" : stateText[data.state]}</Badge>{" "}
            {data.report && <button onClick={() => (report.value = !report.value)}>report</button>}{" "}
            <button class="danger" disabled={!!may} title={may} onClick={remove}>{running ? "stop" : "remove"}</button>{" "}
            {!running && <button onClick={props.onClose}>close</button>}
          </>
        }
      >
        <p class="dim">{moment(data.began_at)}{data.by ? `, ordered by ${data.by}` : ""}</p>
        <Oops error={error || data.says} />
        {(running || !jobs.length) && (
          <ol class="steps" aria-label="Jobs of the audit">
            {data.steps.map((one) => (
              <li key={one.job} class={one.seconds === null ? "" : "past"} aria-current={running && one.seconds === null ? "step" : undefined}>
                {one.job}{one.seconds === null ? "" : ` ${span(one.seconds)}`}
              </li>
            ))}
            {running && !data.steps.length && <li aria-current="step">It starts…</li>}
          </ol>
        )}
        {jobs.length > 0 && (
          <>
            <p>
              <strong>{broken(data) ? `Broken: ${broken(data)}.` : "No promise was broken."}</strong>{" "}
              {many(data.files, "file")} of {data.nodes.map(short).join(", ") || "no node"}, {data.from.slice(0, 19).replace("T", " ")} to {data.to.slice(0, 19).replace("T", " ")}.
              {data.share < 1 ? ` Only ${(data.share * 100).toFixed(1)} % of the messages were recorded.` : ""}
              {data.holes ? ` ${many(data.holes, "time")} a recorder was not looking.` : ""}
              {data.problems ? ` ${many(data.problems, "file")} could not be read as they are.` : ""}
            </p>
            <Table
              label="Findings"
              head={["Job", "What it says", "Numbers"]}
              empty=""
              rows={jobs.map(([job, found]) => [
                <strong>{job}</strong>,
                found.says.map((line) => <div key={line}>{line}</div>),
                Object.entries(found.numbers).map(([name, value]) => <div key={name}>{name.replaceAll("_", " ")} <strong>{count(value)}</strong></div>),
              ])}
            />
          </>
        )}
      </Card>
      {report.value && <Report kind="audit" id={data.id} node={props.node} onClose={() => (report.value = false)} />}
    </>
  );
}
