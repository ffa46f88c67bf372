import { useSignal } from "@preact/signals";
import { at, get } from "./api";
import { names, sample } from "./live";
import { Badge, Card, NodePicker, Oops, Table, usePoll } from "./ui";

interface Topic {
  filter: string;
  nodes: string[];
}
interface Match {
  topic: string;
  matches: Topic[];
  nodes: string[];
  subscribers: number;
}

export function Topics() {
  const topic = useSignal("");
  const from = useSignal(sample.value?.asked ?? "");
  const after = useSignal<string[]>([]);
  const node = from.value || sample.value?.asked || "";
  const match = usePoll<Match | null>(
    () => (topic.value ? get<Match>(at(node, "/topics/match"), { topic: topic.value }) : Promise.resolve(null)),
    3,
    [topic.value, node],
  );
  const page = usePoll(() => get<{ items: Topic[]; next: string | null }>("/topics", { limit: 100, after: after.value.at(-1) }), 4, [after.value.length]);
  return (
    <>
      <Card title="Where would it go, and why" aside={<NodePicker names={names.value} value={node} onPick={(name) => (from.value = name)} />}>
        <label>
          Topic name
          <input
            name="topic"
            placeholder="plant/3/temperature"
            autocomplete="off"
            spellcheck={false}
            value={topic.value}
            onInput={(event) => (topic.value = event.currentTarget.value)}
          />
        </label>
        <Oops error={topic.value ? match.error : ""} />
        {!topic.value && <p class="empty">Type a topic, and see which filters match it, on which nodes.</p>}
        {match.data && (
          <>
            <p>
              {match.data.nodes.length ? (
                <>
                  A message to <code>{match.data.topic}</code> published at {node} goes to{" "}
                  {match.data.nodes.map((name) => <Badge key={name} kind="good">{name}</Badge>)}, and to{" "}
                  <strong>{match.data.subscribers}</strong> subscribers there.
                </>
              ) : (
                <>Nobody subscribes to <code>{match.data.topic}</code>: a message to it is dropped.</>
              )}
            </p>
            <Table
              label="Matching filters"
              head={["Because of", "Subscribed on"]}
              empty="no filter matches"
              rows={match.data.matches.map((row) => [<code>{row.filter}</code>, row.nodes.join(", ")])}
            />
          </>
        )}
      </Card>
      <Card
        title="Filters with subscribers"
        aside={
          <>
            <button disabled={!after.value.length} onClick={() => (after.value = after.value.slice(0, -1))}>previous</button>{" "}
            <button disabled={!page.data?.next} onClick={() => (after.value = [...after.value, page.data!.next!])}>next</button>
          </>
        }
      >
        <Oops error={page.error} />
        <Table
          label="Filters"
          head={["Filter", "Nodes"]}
          empty="nobody subscribes to anything"
          rows={(page.data?.items ?? []).map((row) => [<code>{row.filter}</code>, row.nodes.join(", ")])}
        />
      </Card>
    </>
  );
}
