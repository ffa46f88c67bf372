// A question before something that cannot be taken back. Esc and "cancel" are a no, and what has the focus first.
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface Question {
  title: string;
  text: ComponentChildren;
  yes: string;
  answer: (sure: boolean) => void;
}

const asked = signal<Question | null>(null);

/** Whether the person is sure. */
export function ask(title: string, text: ComponentChildren, yes: string): Promise<boolean> {
  asked.value?.answer(false);
  return new Promise((answer) => (asked.value = { title, text, yes, answer }));
}

/** Where questions are shown: one at a time. */
export function Questions() {
  const question = asked.value;
  return question ? <Dialog key={question.title} {...question} /> : null;
}

function Dialog(props: Question) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    dialog.current?.showModal();
    return () => before?.focus();
  }, []);
  const end = (sure: boolean) => {
    asked.value = null;
    props.answer(sure);
  };
  return (
    <dialog ref={dialog} class="card" aria-labelledby="question" onCancel={(event) => { event.preventDefault(); end(false); }}>
      <h2 id="question">{props.title}</h2>
      <div>{props.text}</div>
      <div class="row">
        <button autofocus onClick={() => end(false)}>cancel</button>
        <button class="danger" onClick={() => end(true)}>{props.yes}</button>
      </div>
    </dialog>
  );
}
