// Sends what stands in a box, and shows what comes back.
"use strict";

function headers() {
  const token = document.getElementById("token");
  const found = { "Content-Type": "application/json" };
  if (token && token.value) found.Authorization = authorization(token.value);
  return found;
}

async function send(button) {
  const { method, path, name } = button.dataset;
  const box = document.getElementById(name + "-body");
  const answer = document.getElementById(name + "-answer");
  button.disabled = true;
  try {
    const found = await fetch(path.slice(1), { method, headers: headers(), body: box ? box.value : undefined });
    const text = await found.text();
    let shown = text;
    try {
      shown = JSON.stringify(JSON.parse(text), null, 1);
    } catch {
      // metrics are no JSON
    }
    answer.textContent = `${found.status} ${found.statusText}\n\n${shown}`;
  } catch (error) {
    answer.textContent = `no answer: ${error.message}`;
  }
  answer.hidden = false;
  button.disabled = false;
  button.focus();
}

for (const button of document.querySelectorAll("button[data-path]")) {
  button.addEventListener("click", () => send(button));
}
