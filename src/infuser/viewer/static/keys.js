// Single keys for people who look at many heads. They sleep while a field is being written in or a dialog is open.

const FIELDS = "textarea, select, input:not([type=checkbox]), [contenteditable]";

/** Call the action of a key, `{key: () => ...}`, wherever on the page it is pressed outside of fields. */
export function listenForKeys(actions) {
  document.addEventListener("keydown", (event) => {
    const action = actions[event.key];
    if (!action || event.defaultPrevented || isCommand(event)) return;
    if (event.target.closest?.(FIELDS) || document.querySelector("dialog[open]")) return;
    event.preventDefault(); // Firefox would open its quick search at "/"
    action();
  });
}

/** Tell whether a key belongs to the browser; brackets need AltGr on some keyboards, which looks like Ctrl + Alt. */
function isCommand(event) {
  if (event.getModifierState("AltGraph")) return false;
  return event.ctrlKey || event.metaKey || (event.altKey && /\d/.test(event.key));
}
