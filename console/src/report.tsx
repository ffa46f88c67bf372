// The page that a drill or an audit made, in a frame in which it can do nothing; and by a link, for a tab of its own.
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get } from "./api";
import { Card, Oops, Opened } from "./ui";

export function Report(props: { kind: "drills" | "audit"; id: string; node: string; onClose: () => void }) {
  const url = useSignal("");
  const fresh = useSignal("");
  const error = useSignal("");
  const load = async () => {
    try {
      const { kind, id, node } = props;
      url.value = (await get<{ url: string }>("/report-link", { kind, id, node })).url;
      error.value = "";
    } catch (problem) {
      error.value = problem instanceof Error ? problem.message : String(problem);
    }
  };
  useEffect(() => {
    url.value = "";
    load();
    // A link is good for five minutes: the one to another tab is renewed before.
    const timer = setInterval(async () => {
      const { kind, id, node } = props;
      fresh.value = (await get<{ url: string }>("/report-link", { kind, id, node }).catch(() => null))?.url ?? fresh.value;
    }, 240_000);
    return () => clearInterval(timer);
  }, [props.kind, props.id, props.node]);
  return (
    <Opened>
      <Card
        title={`Report ${props.id}`}
        aside={
          <>
            {url.value && <a href={fresh.value || url.value} target="_blank" rel="noopener">open in a tab</a>} <button onClick={props.onClose}>close report</button>
          </>
        }
      >
        <Oops error={error.value} />
        {url.value && <iframe class="report" sandbox="" src={url.value} title={`Report ${props.id}`} />}
      </Card>
    </Opened>
  );
}
