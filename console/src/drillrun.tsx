import { useSignal } from "@preact/signals";
import { at, get } from "./api";
import type { Drill, Mark, Progress } from "./drillwords";
import { orderText, steps } from "./drillwords";
import { refused } from "./rights";
import { Report } from "./report";
import { end, stateKind, stateText } from "./runs";
import { Badge, Card, Oops, Table, usePoll } from "./ui";
import { count, moment, short } from "./words";

/** One drill: how far it is, or what came of it. */
export function DrillRun(props: { node: string; id: string; onChange: () => void; onClose: () => void }) {
  const report = useSignal(false);
  const turn = useSignal(0);
  const { data, error } = usePoll(() => get<Drill>(at(props.node, `/drills/${props.id}`)), 1, [props.node, props.id], turn.value);
  const remove = async () => {
    if (!data || !(await end(props.node, "/drills", data))) return;
    props.onChange();
    if (data.state === "running") turn.value++;
    else props.onClose();
  };
  if (!data) return <Card title={props.id}><Oops error={error} /></Card>;
  const running = data.state === "running";
  const may = refused("operator", running ? "Stopping a drill" : "Removing a drill");
  return (
    <>
      <Card
        title={orderText(data.order) || data.id}
        aside={
          <>
            <Badge kind={stateKind(data.state)}>{stateText[data.state]}</Badge>{" "}
            {data.report && <button onClick={() => (report.value = !report.value)}>report</button>}{" "}
            <button class="danger" disabled={!!may} title={may} onClick={remove}>{running ? "stop" : "remove"}</button>{" "}
            {!running && <button onClick={props.onClose}>close</button>}
          </>
        }
      >
        <p class="dim">
          {moment(data.began_at)}{data.by ? `, ordered by ${data.by}` : ""}, {data.order.on === "this-cluster" ? "of this cluster" : `of a cluster of its own beside ${short(props.node)}`}
        </p>
        <Oops error={error || data.says} />
        {running && <Steps order={data.order} step={data.progress?.step ?? "starting"} />}
        {data.words && <p><strong>{data.words}</strong> {data.happened}</p>}
        {data.verdicts.length > 0 && (
          <Table
            label="Verdicts"
            head={["Promise", "", "Expected", "Got"]}
            empty=""
            rows={data.verdicts.map((one) => [
              one.promise,
              one.kept === null ? <Badge kind="dim">not judged</Badge> : <Badge kind={one.kept ? "good" : "bad"}>{one.kept ? "kept" : "broken"}</Badge>,
              one.expected,
              one.got,
            ])}
          />
        )}
        {data.figures.length > 0 && (
          <dl class="facts wide">
            {data.figures.map(([name, value, remark]) => <div key={name}><dt>{name}</dt><dd>{value} {remark && <small>{remark}</small>}</dd></div>)}
          </dl>
        )}
        {data.progress && <Course progress={data.progress} own={data.order.on !== "this-cluster"} />}
        {!running && !data.words && !data.says && !data.progress && <p class="empty">It left no figures{data.report ? "; its report may have some" : ""}.</p>}
      </Card>
      {report.value && <Report kind="drills" id={data.id} node={props.node} onClose={() => (report.value = false)} />}
    </>
  );
}

function Steps(props: { order: Drill["order"]; step: string }) {
  const all = steps(props.order);
  // A fault that parts no sides is called by another word.
  const now = Math.max(0, all.indexOf(props.step === "fault" ? "split" : props.step));
  return (
    <ol class="steps" aria-label="Steps of the drill">
      {all.map((step, index) => (
        <li key={step} class={index < now ? "past" : ""} aria-current={index === now ? "step" : undefined}>{step}</li>
      ))}
    </ol>
  );
}

function Course(props: { progress: Progress; own: boolean }) {
  const { at: now, phases, sides, marks, sees } = props.progress;
  const { sent, delivered, owed, dropped } = props.progress;
  const nodes = Object.keys(sees);
  return (
    <>
      {props.own && (
        <dl class="facts">
          <div><dt>Second</dt><dd>{now.toFixed(0)}</dd></div>
          <div><dt>Sent</dt><dd>{count(sent)}</dd></div>
          <div><dt>Delivered</dt><dd>{count(delivered)}</dd></div>
          <div><dt>Owed still</dt><dd>{count(owed)}</dd></div>
          <div><dt>Clients dropped</dt><dd class={dropped ? "bad" : ""}>{count(dropped)}</dd></div>
        </dl>
      )}
      {!props.own && <p>Who sees whom now is on the page <a href="#/overview">Cluster</a>.</p>}
      {sides.length > 1 && (
        <p>Sides: {sides.map((side) => <Badge key={side.name} kind="dim">{side.nodes.map(short).join(", ")}</Badge>)}</p>
      )}
      {nodes.length > 0 && (
        <Table
          label="Who sees whom"
          head={["Sees", ...nodes.map(short)]}
          empty=""
          rows={nodes.map((one) => [
            <strong>{short(one)}</strong>,
            ...nodes.map((other) => {
              const seen = sees[one]?.[other];
              return seen ? <Badge kind={seen === "up" ? "good" : seen === "suspect" ? "warn" : "bad"}>{seen}</Badge> : "·";
            }),
          ])}
        />
      )}
      <TimeLine now={now} phases={phases} marks={marks} />
    </>
  );
}

function TimeLine(props: { now: number; phases: Progress["phases"]; marks: Mark[] }) {
  const { phases, marks } = props;
  const all = Math.max(props.now, 1, ...phases.map((one) => one.end), ...marks.map((one) => one.at));
  const share = (seconds: number) => (Math.max(0, seconds) / all) * 1000;
  return (
    <>
      {phases.length > 0 && (
        <svg class="phases" viewBox="0 0 1000 46" preserveAspectRatio="none" role="img" aria-label={phases.map((one) => `${one.name} from second ${one.begin.toFixed(1)} to ${one.end.toFixed(1)}`).join(", ")}>
          {phases.map((one) => <rect key={one.name} class={one.name === "split" || one.name === "fault" ? "cut" : ""} x={share(one.begin)} y="0" height="30" width={Math.max(1, share(one.end) - share(one.begin))} />)}
          {marks.map((one, index) => <line key={index} x1={share(one.at)} x2={share(one.at)} y1="30" y2="46" vector-effect="non-scaling-stroke" />)}
        </svg>
      )}
      {phases.length > 0 && (
        <p class="legend">{phases.map((one) => <span key={one.name} class={one.name === "split" || one.name === "fault" ? "cut" : ""}>{one.name} {one.begin.toFixed(0)}–{one.end.toFixed(0)} s</span>)}</p>
      )}
      {marks.length > 0 && (
        <Table
          label="Marks"
          head={["Second", "Node", "What", "Of", ""]}
          empty=""
          rows={[...marks].reverse().slice(0, 30).map((one) => [one.at.toFixed(1), short(one.node) || "the drill", one.kind, short(one.peer), one.detail])}
        />
      )}
    </>
  );
}
