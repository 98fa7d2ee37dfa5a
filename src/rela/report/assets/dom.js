// Elements: found, made, and the one tooltip of the page.

const find = (selector, root = document) => root.querySelector(selector);

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  const isThere = (child) => child !== null && child !== undefined && child !== false;
  element.append(...children.flat(Infinity).filter(isThere));
  return element;
}

// el("p", {class: "quiet"}, "text", ...): text is always text, never markup.
const el = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  build(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// A word of any script: it brings its own direction, and does not turn its neighbours around.
const bdi = (text, attributes) => el("bdi", attributes, text);

// A name, which may be long and without blanks: its lines end after commas, slashes and the like, and short parts between
// them are kept whole.
function breakable(text) {
  const parts = text.match(/(?:\d,\d|[^,/_])+[,/_]*\s*|[,/_]+\s*/g) ?? [text];
  return el(
    "bdi",
    { class: "name" },
    parts.map((part, place) => [place > 0 && el("wbr"), part.length < 22 ? el("span", {}, part) : part]),
  );
}
const nameOf = (entry) => breakable(entry.name);

const tooltip = el("div", { class: "tooltip", role: "tooltip", hidden: true });

function showTooltip(event, ...content) {
  tooltip.replaceChildren(...content.flat(Infinity).filter(Boolean));
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  const below = event.clientY + 16 + box.height < innerHeight;
  const left = Math.max(6, Math.min(event.clientX + 14, innerWidth - box.width - 6));
  const top = below ? event.clientY + 16 : Math.max(6, event.clientY - box.height - 12);
  tooltip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
}

const hideTooltip = () => {
  tooltip.hidden = true;
};

// Content on pointer and on keyboard focus; `content` is asked for when it is needed.
function withTooltip(element, content) {
  const show = (event) => showTooltip(event, content());
  element.addEventListener("pointermove", show);
  element.addEventListener("pointerleave", hideTooltip);
  element.addEventListener("focus", () => {
    const box = element.getBoundingClientRect();
    if (element.matches(":focus-visible")) showTooltip({ clientX: box.left, clientY: box.bottom }, content());
  });
  element.addEventListener("blur", hideTooltip);
  return element;
}

const SCROLLING = matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth";

const signatureLine = (signature) => (signature ? el("div", { class: "signature" }, signature) : null);
