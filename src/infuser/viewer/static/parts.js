// The parts that the server drew, put in place so that the reader loses nothing: what is the same stays untouched, and
// in what is replaced the focus, folds and scroll positions are kept by their place.

const placed = new Map();

/** Put the parts of an answer ({name: markup}) into their slots; return the names of those that cannot be read. */
export function placeParts(parts) {
  const anchor = firstInSight();
  const top = anchor?.getBoundingClientRect().top;
  const unreadable = slots().filter((slot) => !placePart(slot, parts[slot.dataset.part] ?? ""));
  if (anchor) window.scrollBy(0, anchor.getBoundingClientRect().top - top);
  return unreadable.map((slot) => slot.dataset.part);
}

/** Return nodes of this document for markup that must be well-formed XHTML, or null if it is not. */
function readMarkup(markup) {
  const whole = `<div xmlns="http://www.w3.org/1999/xhtml">${markup}</div>`;
  const parsed = new DOMParser().parseFromString(whole, "application/xhtml+xml");
  if (parsed.getElementsByTagNameNS("*", "parsererror").length > 0) return null;
  return [...document.importNode(parsed.documentElement, true).childNodes];
}

function slots() {
  return [...document.querySelectorAll("#parts [data-part]")];
}

function firstInSight() {
  if (window.scrollY === 0) return null; // at the top of the page people want to stay at the top
  return slots().find((slot) => !slot.hidden && slot.getBoundingClientRect().bottom > 0);
}

function placePart(slot, markup) {
  if (placed.get(slot) === markup) return true;
  const nodes = readMarkup(markup);
  if (nodes === null) return false;
  const restore = [keepCells(slot), keepFolds(slot), keepScroll(slot), keepFocus(slot)];
  slot.replaceChildren(...nodes);
  slot.hidden = nodes.length === 0;
  window.infuserLook.enhance(slot);
  restore.forEach((put) => put());
  placed.set(slot, markup);
  return true;
}

/** Keep the cell of each heat map where the keyboard goes on; look.js writes it down as data-at. */
function keepCells(slot) {
  const cells = [...slot.querySelectorAll("svg[data-values]")].map((map) => map.dataset.at);
  return () =>
    slot.querySelectorAll("svg[data-values]").forEach((map, at) => {
      if (cells[at]) map.dataset.at = cells[at];
    });
}

function keepFolds(slot) {
  const open = [...slot.querySelectorAll("details")].map((fold) => fold.open);
  return () => slot.querySelectorAll("details").forEach((fold, at) => (fold.open = open[at] ?? fold.open));
}

function keepScroll(slot) {
  const lefts = [...slot.querySelectorAll(".wide")].map((box) => box.scrollLeft);
  return () => slot.querySelectorAll(".wide").forEach((box, at) => (box.scrollLeft = lefts[at] ?? 0));
}

function keepFocus(slot) {
  const at = focusable(slot).indexOf(document.activeElement);
  if (at === -1) return () => {};
  return () => (focusable(slot)[at] ?? document.getElementById("results")).focus({ preventScroll: true });
}

function focusable(slot) {
  return [...slot.querySelectorAll("button, summary, a[href], [tabindex]")];
}
