import { useSignal } from "@preact/signals";
import { at, order } from "./api";
import { ask } from "./ask";
import type { Drill, Drills, Parameter } from "./drillwords";
import { sidesOf } from "./drillwords";
import { names, sample } from "./live";
import { refused } from "./rights";
import { say, tell } from "./ui";
import { many, short } from "./words";

/** The order of a drill, with the keys that its kind takes. */
export function DrillForm(props: { told: Drills; node: string; onStart: (id: string) => void }) {
  const { told, node } = props;
  const kind = useSignal(told.kinds[0]!.kind);
  const here = useSignal(false);
  const busy = useSignal(false);
  const chosen = told.kinds.find((one) => one.kind === kind.value)!;
  const may = refused("operator", "Starting a drill");
  const mayHere =
    refused("admin", "Cutting this cluster") ||
    (told.here ? "" : "The nodes of this cluster have no gate: start them with drill.faults: true to drill the cluster itself.");
  const possible = chosen.on.includes("this-cluster");
  const on = here.value && possible && !mayHere ? "this-cluster" : "own-cluster";
  const parameters =
    on === "this-cluster"
      ? [...told.common.filter((one) => one.name === "seconds"), ...chosen.parameters.filter((one) => one.name === "split")]
      : [...chosen.parameters, ...told.common];
  const start = async (event: SubmitEvent) => {
    event.preventDefault();
    const body: Record<string, string | number> = { kind: kind.value, on };
    const form = new FormData(event.currentTarget as HTMLFormElement);
    for (const one of parameters) {
      const text = String(form.get(one.name) ?? "").trim();
      if (text) body[one.name] = one.kind === "text" ? text : Number(text);
    }
    if (on === "this-cluster" && !(await ask("Cut this cluster?", <Cut split={String(body.split ?? "")} seconds={Number(body.seconds)} />, "cut this cluster"))) return;
    busy.value = true;
    try {
      const run = await order<Drill>("POST", at(node, "/drills"), body);
      tell("the drill is on its way");
      props.onStart(run.id);
    } catch (error) {
      say(error);
    }
    busy.value = false;
  };
  return (
    <form onSubmit={start}>
      {may && <p class="oops">{may}</p>}
      <fieldset disabled={!!may}>
        <div class="row">
          <label>
            Kind
            <select name="kind" value={kind.value} onChange={(event) => (kind.value = event.currentTarget.value)}>
              {told.kinds.map((one) => <option key={one.kind}>{one.kind}</option>)}
            </select>
          </label>
          <label>
            Of
            <select name="on" value={on} onChange={(event) => (here.value = event.currentTarget.value === "this-cluster")} disabled={!possible || !!mayHere}>
              <option value="own-cluster">a cluster of its own</option>
              <option value="this-cluster">this cluster</option>
            </select>
          </label>
        </div>
        <p>
          {chosen.says}{" "}
          <span class="dim">
            {on === "this-cluster"
              ? "The nodes that you look at are parted by their gates; clients stay connected, and no load is made."
              : `A cluster is started for it on the machine of ${short(node)}, and is gone after it: nothing of this one is touched.`}
            {possible ? ` ${mayHere}` : ""}
          </span>
        </p>
        <div class="fields" key={`${kind.value} ${on}`}>
          {parameters.map((one) => <Field key={one.name} parameter={one} />)}
        </div>
        <div class="row">
          <button class={on === "this-cluster" ? "danger" : ""} disabled={busy.value || !!told.running}>start the drill</button>
          {told.running && <span class="dim">One at a time: {told.running} is running.</span>}
        </div>
      </fieldset>
    </form>
  );
}

function Field(props: { parameter: Parameter }) {
  const { name, says, kind, unit, least, most } = props.parameter;
  const value = props.parameter.default ?? "";
  const bounds = least !== null && most !== null && most < 1e6 ? `, ${least} to ${most}` : "";
  return (
    <label>
      <strong>{name.replaceAll("_", " ")}</strong>
      {unit ? ` (${unit})` : ""}
      {kind === "text" ? (
        <input name={name} defaultValue={String(value)} maxLength={60} autocomplete="off" spellcheck={false} placeholder="2/1" />
      ) : (
        <input name={name} type="number" defaultValue={String(value)} min={least ?? undefined} max={most ?? undefined} step={kind === "whole" ? 1 : "any"} />
      )}
      <small>{says}{bounds}</small>
    </label>
  );
}

function Cut(props: { split: string; seconds: number }) {
  const all = names.value;
  const sides = sidesOf(props.split, all);
  const clients = (sample.value?.nodes ?? []).reduce((sum, pulse) => sum + pulse.connections, 0);
  return (
    <>
      <p>
        For <strong>{props.seconds} s</strong> these nodes, which serve {many(clients, "client")} now, do not hear each other:
      </p>
      {sides ? (
        <ul class="sides">{sides.map((side) => <li key={side[0]}>{side.map(short).join(", ")}</li>)}</ul>
      ) : (
        <p><code>{props.split}</code> of {all.map((name, index) => `${index + 1}: ${short(name)}`).join(", ")}</p>
      )}
      <p>Messages from one side to the other wait or are lost, as in a real split. The gates open by themselves, even if this page is closed; then autoheal does what it is set to.</p>
    </>
  );
}
