"use strict";
// Asks what stands in a section's field, and shows the answer as text.
for (const section of document.querySelectorAll("section")) {
  const { path, verb } = section.dataset;
  const shown = section.querySelector("pre");
  section.querySelector("button").addEventListener("click", async () => {
    const body = section.querySelector("textarea");
    const token = document.getElementById("token").value;
    const headers = { ...(body && { "Content-Type": "application/json" }), ...(token && { Authorization: `Bearer ${token}` }) };
    shown.hidden = false;
    shown.textContent = "...";
    try {
      const answer = await fetch(path, { method: verb, headers, ...(body && { body: body.value }) });
      const text = await answer.text();
      const isJson = (answer.headers.get("content-type") || "").startsWith("application/json");
      shown.textContent = `${answer.status}\n${isJson ? JSON.stringify(JSON.parse(text), null, 1) : text}`;
    } catch (error) {
      shown.textContent = `There was no answer: ${error.message}`;
    }
  });
}
