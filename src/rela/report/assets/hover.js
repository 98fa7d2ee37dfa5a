// The word or place under the pointer, for all views at once. A click pins it, so that a finger can do it too.

const hover = { row: null, col: null, pinned: false };
const hoverListeners = [];
const onHover = (listener) => hoverListeners.push(listener);

function setHover(row, col, pinned = false) {
  if (hover.pinned && !pinned) return;
  if (hover.row === row && hover.col === col && hover.pinned === pinned) return;
  Object.assign(hover, { row, col, pinned });
  for (const listener of hoverListeners) listener();
}

function clearHover() {
  hover.pinned = false;
  setHover(null, null);
}

// Pins a place, or lets it go when it is the pinned one.
function togglePin(row, col) {
  const same = hover.pinned && hover.row?.key === row?.key && hover.col?.key === col?.key;
  hover.pinned = false;
  if (same) setHover(null, null);
  else setHover(row, col, true);
}
