// Questions to the server of this page. Every failure becomes an error whose message is a sentence for the reader.

const LONGEST_WAIT = 60_000;

const NO_ANSWER = "The server does not answer. Is `infuser view` still running?";
const PASSING = [408, 429, 500, 503]; // of these, asking again later may help

/** What went wrong, as a sentence for the reader; `again` tells whether asking once more may help. */
class Refusal extends Error {
  constructor(told, again) {
    super(told);
    this.again = again;
  }
}

/** Return what the model is; see /api/model. */
export async function askModel() {
  return (await ask("api/model", {})).json();
}

/** Return the parts of the page for a state. */
export async function askParts(state, signal) {
  return (await askAbout("api/see", state, signal)).json();
}

/** Return the explanation of a state as a JSON file, byte for byte as the server wrote it. */
export async function askExplanation(state) {
  return (await askAbout("api/explain", state)).blob();
}

/** Tell whether an error only says that a newer question took the place of this one. */
export function isOutdated(error) {
  return error.name === "AbortError";
}

function askAbout(address, { text, pair, off, layer, head }, signal) {
  const headers = { "Content-Type": "application/json" };
  return ask(address, { method: "POST", headers, body: JSON.stringify({ text, pair, off, layer, head }), signal });
}

async function ask(address, { signal, ...options }) {
  const tooLong = AbortSignal.timeout(LONGEST_WAIT);
  const ends = signal ? AbortSignal.any([signal, tooLong]) : tooLong;
  let answer;
  try {
    answer = await fetch(address, { ...options, cache: "no-store", signal: ends });
    if (answer.ok) return new Response(await answer.blob(), answer); // read here: it may break off half way
  } catch (error) {
    if (isOutdated(error)) throw error;
    throw new Refusal(NO_ANSWER, true);
  }
  throw new Refusal(await sentence(answer), PASSING.includes(answer.status));
}

async function sentence(answer) {
  try {
    return String((await answer.json()).error);
  } catch {
    return `The server answered with status ${answer.status} and no word about why. Its log may say more.`;
  }
}
