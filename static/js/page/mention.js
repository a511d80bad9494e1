// The user name that is being typed after "@": where it is in the text, and the text with a name in its place.

const WORD = /(^|[^\p{L}\p{N}_@.+-])@([\p{L}\p{N}_@.+-]*)$/u;

// The beginning of a name before the caret, and where its "@" is; null elsewhere.
export function mentionAt(text, caret) {
  const found = WORD.exec(text.slice(0, caret));
  return found && { start: caret - found[2].length - 1, typed: found[2] };
}

// The text with a whole name at the mention, and the caret behind it.
export function completed(text, caret, name) {
  const { start } = mentionAt(text, caret);
  const before = `${text.slice(0, start)}@${name} `;
  return { text: before + text.slice(caret).replace(/^ /, ""), caret: before.length };
}
