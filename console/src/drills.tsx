import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { at, get } from "./api";
import { DrillForm } from "./drillform";
import { DrillRun } from "./drillrun";
import type { Drills as Told } from "./drillwords";
import { orderText } from "./drillwords";
import { names, sample } from "./live";
import { stateKind, stateText } from "./runs";
import { Badge, Card, NodePicker, Oops, Opened, Table, usePoll } from "./ui";
import { moment, short, span } from "./words";

/** Break the network on purpose, and see what it did. */
export function Drills() {
  const node = useSignal("");
  const picked = useSignal("");
  const turn = useSignal(0);
  const name = node.value || sample.value?.asked || "";
  const { data, error } = usePoll<Told | null>(() => (name ? get(at(name, "/drills")) : Promise.resolve(null)), 2, [name], turn.value);
  // What runs is shown, and stays when it is over.
  useEffect(() => {
    if (data?.running && !picked.value) picked.value = data.running;
  }, [data?.running]);
  const shown = picked.value;
  return (
    <>
      <Card
        title="Start a drill"
        aside={<NodePicker names={names.value} value={name} onPick={(one) => { node.value = one; picked.value = ""; }} />}
      >
        <Oops error={error} />
        {data ? (
          <DrillForm key={name} told={data} node={name} onStart={(id) => { picked.value = id; turn.value++; }} />
        ) : (
          !error && <p class="empty">Asking {name} what it offers…</p>
        )}
      </Card>
      {shown && (
        <Opened key={`${name} ${shown}`}>
          <DrillRun node={name} id={shown} onChange={() => turn.value++} onClose={() => (picked.value = "")} />
        </Opened>
      )}
      <Card title={`Drills ordered at ${short(name)}`} aside={data ? `${data.items.length} kept` : ""}>
        <Table
          label="Drills"
          head={["Drill", "Began", "Of", "By", "State", "Took", "What came of it"]}
          empty={error ? "not known" : "None was ordered at this node yet. Drills of the command line tell their results where they are typed."}
          onPick={(row) => (picked.value = data!.items[row]!.id)}
          rows={(data?.items ?? []).map((run) => [
            <strong>{orderText(run.order) || run.id}</strong>,
            <time>{moment(run.began_at)}</time>,
            run.order.on === "this-cluster" ? "this cluster" : run.state === "elsewhere" ? "" : "its own cluster",
            run.by,
            <Badge kind={stateKind(run.state)}>{stateText[run.state]}</Badge>,
            run.ended_at > run.began_at ? span(run.ended_at - run.began_at) : "",
            run.words || run.says,
          ])}
        />
      </Card>
    </>
  );
}
