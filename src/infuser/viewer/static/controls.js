// The controls beside the parts: built once from what the model is, then shown from the state and nothing else.

const byId = (id) => document.getElementById(id);
let pairAlways = false;

/** Build the controls for a model; `change` is called with the changed parts of the state and whether it was typed. */
export function buildControls(about, change) {
  pairAlways = about.pairs;
  byId("title").textContent = about.title;
  byId("note").textContent = about.note;
  document.title = `${about.title} · Infuser`;
  buildExamples(about.examples, change);
  buildSwitches("sources", about.sources, 0, change);
  buildSwitches("methods", about.methods, about.sources.length, change);
  buildChoices(byId("layer"), range(about.n_layers));
  buildChoices(byId("head"), [["mean", "mean over heads"], ...range(about.n_heads)]);
  byId("layer").addEventListener("change", (event) => change({ layer: Number(event.target.value) }));
  byId("head").addEventListener("change", (event) => change({ head: headOf(event.target.value) }));
  byId("strongest").addEventListener("click", () => change({ layer: "strongest" }));
  for (const id of ["text", "pair"]) {
    byId(id).maxLength = about.most_characters;
    byId(id).addEventListener("input", () => change(writtenTexts(), { typed: true }));
  }
  byId("second-switch").addEventListener("click", () => switchSecond(change));
  byId("second-switch").hidden = pairAlways || about.kind === "relations"; // they are read within one text
  byId("strongest").hidden = about.kind === "plain"; // nothing changes
  if (about.kind === "relations") nameStrongest("head that decided", "the head that spoke most for the likeliest relation");
}

/** Show a state in the controls; a text that is being written is not touched. */
export function showState(state, about) {
  showText(byId("text"), state.text);
  // one that can be hidden keeps what was written in it, in case it is wanted back
  if (state.pair !== null || pairAlways) showText(byId("pair"), state.pair ?? "");
  revealSecond(pairAlways || state.pair !== null || document.activeElement === byId("pair"));
  showLimit(about.most_characters);
  document.querySelectorAll(".switches input").forEach((box) => (box.checked = !state.off.includes(box.value)));
  byId("layer").value = String(state.layer);
  byId("head").value = state.layer === "strongest" ? "" : String(state.head ?? "mean");
  document.querySelectorAll("#examples button").forEach((button, at) => {
    const { text, pair } = about.examples[at];
    button.setAttribute("aria-current", String(text === state.text && (pair ?? null) === state.pair));
  });
}

/** Return the names of the sources and methods that are switched off. */
function switchedOff() {
  return [...document.querySelectorAll(".switches input:not(:checked)")].map((box) => box.value);
}

/** Switch the source or method at a place (from 0) as a click would, if there is one. */
export function switchSource(at) {
  document.querySelectorAll(".switches input")[at]?.click();
}

function writtenTexts() {
  const pair = byId("second").hidden ? "" : byId("pair").value;
  return { text: byId("text").value, pair: pair === "" ? null : pair };
}

function showText(area, text) {
  if (area.value !== text) area.value = text; // writing the same again would move the caret
}

function switchSecond(change) {
  revealSecond(byId("second").hidden);
  if (!byId("second").hidden) byId("pair").focus();
  change(writtenTexts());
}

function revealSecond(open) {
  byId("second").hidden = !open;
  byId("second-switch").textContent = open ? "remove the second text" : "add a second text";
  byId("second-switch").setAttribute("aria-expanded", String(open));
}

function showLimit(most) {
  const full = ["text", "pair"].some((id) => byId(id).value.length >= most);
  byId("limit").textContent = full ? `At most ${most.toLocaleString("en")} characters are read.` : "";
  byId("limit").hidden = !full;
}

function nameStrongest(told, title) {
  byId("strongest").textContent = told;
  byId("strongest").title = title;
}

function buildExamples(examples, change) {
  const items = examples.map(({ text, pair }) => {
    const button = element("button", { type: "button" }, pair ? `${text} — ${pair}` : text);
    button.title = button.textContent;
    button.addEventListener("click", () => change({ text, pair: pair ?? null }));
    return element("li", {}, button);
  });
  byId("examples").hidden = items.length === 0;
  document.querySelector("#examples ul").replaceChildren(...items);
}

/** Build one switch per source or method; keys count on from `first`. */
function buildSwitches(id, switches, first, change) {
  const items = switches.map(({ name, about }, place) => {
    const at = first + place;
    const box = element("input", { type: "checkbox", id: `switch-${at}`, value: name });
    box.addEventListener("change", () => change({ off: switchedOff() }));
    const told = element("small", { id: `switch-${at}-about` }, about);
    if (about) box.setAttribute("aria-describedby", told.id);
    const label = element("label", { htmlFor: box.id }, name);
    const key = element("kbd", { ariaHidden: "true" }, at < 9 ? String(at + 1) : "");
    return element("li", {}, box, label, key, told);
  });
  byId(id).hidden = items.length === 0;
  document.querySelector(`#${id} ul`).replaceChildren(...items);
}

function buildChoices(select, choices) {
  select.replaceChildren(...choices.map(([value, told]) => element("option", { value }, told)));
}

function range(n) {
  return Array.from({ length: n }, (_, at) => [String(at), at === n - 1 ? `${at} (last)` : String(at)]);
}

function headOf(value) {
  return value === "mean" ? null : Number(value);
}

/** Return a new element; strings among its children become text, never markup. */
function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}
