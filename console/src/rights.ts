// What the person may do, by role, said in words where it is refused.
import { who } from "./api";

const ORDER = ["viewer", "operator", "admin"];

/** Why the person may not, empty when they may; the node has the last word. */
export function refused(wanted: "operator" | "admin", what: string): string {
  const role = who.value?.role;
  if (!role || ORDER.indexOf(role) >= ORDER.indexOf(wanted)) return "";
  return `${what} takes the role ${wanted}, and you are ${role}.`;
}
