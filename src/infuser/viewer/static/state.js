// What the page shows, as one plain object, and the same written in the address's fragment.
//
// {text: string, pair: string | null, off: string[], layer: number | "strongest", head: number | null}
//
// The fragment stays in the browser: a link opens the same picture, and no text is sent in an address.

const KEYS = ["text", "pair", "layer", "head", "off"];

/** Return the state that a model starts with: its first example, where knowledge changes most. */
export function firstState(about) {
  const { text, pair } = about.examples[0] ?? { text: "", pair: null };
  return { text, pair: pair ?? null, off: [], layer: "strongest", head: null };
}

/** Return the state that a fragment tells, or null if it tells none. */
export function readFragment(fragment, about) {
  const told = new URLSearchParams(fragment.replace(/^#/, ""));
  if (!KEYS.some((key) => told.has(key))) return null;
  const known = [...about.sources, ...about.methods].map((one) => one.name);
  return {
    text: told.get("text") ?? "",
    pair: told.get("pair") || null,
    off: known.filter((name) => told.getAll("off").includes(name)),
    // one that is negative or out of range is left to the server: it counts from the last, or says which ones there are
    layer: wholeNumber(told.get("layer")) ?? "strongest",
    head: wholeNumber(told.get("head")),
  };
}

/** Return a state as a fragment, `#` included. */
export function writeFragment(state) {
  const told = new URLSearchParams({ text: state.text });
  if (state.pair !== null) told.set("pair", state.pair);
  told.set("layer", state.layer);
  told.set("head", state.head ?? "mean");
  state.off.forEach((name) => told.append("off", name));
  return `#${told}`;
}

/** Return the layer `step` further, round and round; from nowhere in particular it starts at the first. */
export function nextLayer(state, step, about) {
  if (typeof state.layer !== "number") return 0;
  return (state.layer + step + about.n_layers) % about.n_layers;
}

/** Return the head `step` further, round and round, with the mean over heads before the first. */
export function nextHead(state, step, about) {
  const places = about.n_heads + 1;
  const at = state.head === null ? 0 : state.head + 1;
  const next = (at + step + places) % places;
  return next === 0 ? null : next - 1;
}

function wholeNumber(told) {
  return /^-?\d{1,6}$/.test(told ?? "") ? Number(told) : null;
}
