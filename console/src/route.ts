// Where the person is: the page, and what of it, from the part of the address behind the #.
export const pageName = () => location.hash.slice(2).split("?")[0] || "overview";

/** What the address asks of the page: ``#/clients?search=meter``. */
export const asked = (name: string) => new URLSearchParams(location.hash.split("?")[1] ?? "").get(name) ?? "";
