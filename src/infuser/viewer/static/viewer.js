// The live page: a change of a control changes the state, the state asks the server, the answer is put in place.

import { askExplanation, askModel, askParts, isOutdated } from "./asking.js";
import { buildControls, showState, switchSource } from "./controls.js";
import { listenForKeys } from "./keys.js";
import { placeParts } from "./parts.js";
import { firstState, nextHead, nextLayer, readFragment, writeFragment } from "./state.js";

const WHILE_TYPING = 200; // ms
const WHILE_BUSY = 60; // a key held down asks once it rests, not thirty times a second

const byId = (id) => document.getElementById(id);
let about = null;
let state = null;
let shownLayer = null;
let timer = 0; // of the question that will be asked
let running = null; // AbortController of the question that is under way

/** Take over some parts of the state and show what they lead to. */
function change(parts, { typed = false } = {}) {
  const busy = running !== null || timer !== 0;
  dropQuestion(); // its answer would set the state back
  state = { ...state, ...parts };
  // a head was chosen while the strongest is still looked for: of the layer that is shown
  if ("head" in parts && !("layer" in parts) && state.layer === "strongest") state.layer = shownLayer ?? about.n_layers - 1;
  showState(state, about);
  byId("results").setAttribute("aria-busy", "true"); // from now on what is shown is not what was asked for
  timer = setTimeout(see, typed ? WHILE_TYPING : busy ? WHILE_BUSY : 0);
}

function dropQuestion() {
  clearTimeout(timer);
  timer = 0;
  running?.abort();
  running = null;
}

/** Ask for the parts of the state and put them in place; an answer that a newer question overtook is dropped. */
async function see() {
  dropQuestion();
  history.replaceState(null, "", writeFragment(state));
  byId("download").disabled = state.text.trim() === "";
  if (byId("download").disabled) return showNothing();
  const mine = (running = new AbortController());
  wait("reading…");
  try {
    const answer = await askParts(state, mine.signal);
    if (mine !== running) return;
    show(answer);
  } catch (error) {
    if (isOutdated(error) || mine !== running) return;
    complain(error);
  }
  running = null;
}

function showNothing() {
  placeParts({});
  hideAlert();
  rest("Write a text to see what knowledge does to it.");
}

function show(answer) {
  shownLayer = answer.layer;
  state = { ...state, layer: answer.layer, head: answer.head };
  showState(state, about);
  history.replaceState(null, "", writeFragment(state));
  const unreadable = placeParts(answer.parts);
  hideAlert();
  rest(`read in ${answer.seconds.toFixed(2)} s: ${answer.place}`);
  if (unreadable.length > 0) alertReader(`This browser cannot read what the server drew: ${unreadable.join(", ")}.`);
}

function wait(told) {
  byId("status").textContent = told;
  byId("results").setAttribute("aria-busy", "true");
}

function rest(told) {
  byId("status").textContent = told;
  byId("results").removeAttribute("aria-busy");
}

function complain(error) {
  rest("");
  alertReader(error.message, { again: error.again });
}

function alertReader(told, { again = false } = {}) {
  byId("alert").firstElementChild.textContent = told;
  byId("again").hidden = !again;
  byId("alert").hidden = false;
}

function hideAlert() {
  byId("alert").hidden = true;
}

async function copyLink() {
  const told = await navigator.clipboard?.writeText(location.href).then(
    () => "link copied",
    () => null, // not allowed, or not a secure address
  );
  rest(told ?? "The browser does not let this page copy: take the link from the address bar.");
}

async function download() {
  wait("writing JSON…");
  try {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await askExplanation(state));
    link.download = "explanation.json";
    link.click();
    URL.revokeObjectURL(link.href);
    rest("explanation.json saved");
  } catch (error) {
    complain(error);
  }
}

function step(place, by) {
  change(place === "layer" ? { layer: nextLayer(state, by, about) } : { head: nextHead(state, by, about) });
}

/** Open another link pasted into this tab; an address without a state (a bare #) gets the present one back. */
function followFragment() {
  const told = readFragment(location.hash, about);
  if (told) change(told);
  else history.replaceState(null, "", writeFragment(state));
}

function listen() {
  for (const place of ["layer", "head"]) {
    byId(`${place}-previous`).addEventListener("click", () => step(place, -1));
    byId(`${place}-next`).addEventListener("click", () => step(place, 1));
  }
  byId("copy-link").addEventListener("click", copyLink);
  byId("download").addEventListener("click", download);
  byId("shortcuts").addEventListener("click", () => byId("help").showModal());
  byId("parts").addEventListener("infuser:cell", ({ detail }) => {
    if (detail.kind === "heads") change({ layer: detail.row, head: detail.column });
  });
  byId("parts").addEventListener("click", ({ target }) => {
    const button = target.closest("button.head");
    if (button) change({ layer: Number(button.dataset.layer), head: Number(button.dataset.head) });
  });
  window.addEventListener("hashchange", followFragment);
  listenForKeys({
    "[": () => step("head", -1),
    "]": () => step("head", 1),
    "{": () => step("layer", -1),
    "}": () => step("layer", 1),
    "/": () => byId("text").focus(),
    "?": () => byId("help").showModal(),
    ...Object.fromEntries(Array.from({ length: 9 }, (_, at) => [at + 1, () => switchSource(at)])),
  });
}

/** Begin: ask what the model is, then show the state of the address or the first example. */
async function start() {
  wait("asking the server…");
  try {
    about = await askModel();
  } catch (error) {
    return complain(error);
  }
  buildControls(about, change);
  listen();
  hideAlert();
  byId("controls").inert = false;
  change(readFragment(location.hash, about) ?? firstState(about));
}

// the fragment holds the state, so this link must not change it
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("results").focus();
});
byId("controls").addEventListener("submit", (event) => event.preventDefault());
byId("again").addEventListener("click", () => (about ? change({}) : start()));
byId("controls").inert = true; // until there is something to choose
start();
