// The service is asked, and what goes wrong is said beside the form that asked.

const state = { models: [], limits: {}, token: "" };

/** What is said to the reader, and the field to mend, if it is one. */
class Problem extends Error {
  constructor(message, { field = null, status = null } = {}) {
    super(message);
    Object.assign(this, { field, status });
  }
}

/** Ask the service. A full queue is asked once more, when the service says there will be room. */
async function ask(path, body, again = true) {
  const headers = body ? { "content-type": "application/json" } : {};
  if (state.token) headers.authorization = authorization(state.token);
  const response = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body) }).catch(() => {
    throw new Problem("The service does not answer. Is it still running?");
  });
  if (response.ok) return response.json();
  const { status } = response;
  if (status === 401) {
    byId("token-form").hidden = false;
    const text = state.token ? "The service does not know this token. Is it whole, with no letter too many?" : "This service wants a token; whoever runs it can tell you.";
    throw new Problem(text, { status, field: byId("token") });
  }
  if (status === 503 && again) {
    const seconds = Number(response.headers.get("retry-after")) || 1;
    await new Promise((done) => setTimeout(done, 1000 * Math.min(seconds, 10)));
    return ask(path, body, false);
  }
  const found = await response.json().catch(() => ({}));
  throw new Problem(found.detail || `The service answered ${status}.`, { status });
}

/** Do what a form asks for: its button rests meanwhile but keeps the focus, and `work` says how it went. */
async function working(form, doing, work) {
  const button = form.querySelector("button");
  const status = form.querySelector("[role=status]");
  if (button.ariaDisabled === "true") return;
  button.ariaDisabled = "true";
  status.textContent = doing;
  form.querySelector("[role=alert]").hidden = true;
  try {
    status.textContent = await work();
  } catch (error) {
    status.textContent = "";
    complain(form, error);
  } finally {
    button.ariaDisabled = "false";
  }
}

/** Say what is wrong. What the form was answered before goes: it is no answer to this. */
function complain(form, error) {
  if (form.dataset.answer) byId(form.dataset.answer).replaceChildren();
  const alert = (error.status === 401 ? byId("token-form") : form).querySelector("[role=alert]");
  alert.hidden = false;
  alert.textContent = error.message;
  if (error.field) error.field.focus();
}

/** The lines of a field, none of them blank or too long for the service. */
function linesOf(field, what) {
  const lines = field.value.split("\n").map((line) => line.trim());
  const most = state.limits.characters;
  const long = lines.findIndex((line) => Array.from(line).length > most); // as Python counts
  if (long >= 0) {
    const length = Array.from(lines[long]).length.toLocaleString("en");
    throw new Problem(`Line ${long + 1} of the ${what} has ${length} characters, and the service takes ${most.toLocaleString("en")}. Please break it into several.`, { field });
  }
  const found = lines.filter(Boolean);
  if (!found.length) throw new Problem(`Please write a ${what} first.`, { field });
  return found;
}
