// Pure rules of the clipboard: one value goes into the cell, rows and columns of text are a paste.

// A spreadsheet ends what it copies with a line break.
export const withoutLastBreak = (text) => text.replace(/\r?\n$/, "");

export const isBlock = (text) => /[\t\n]/.test(withoutLastBreak(text));

// What a paste does: edit the cell, post the text as a block, or nothing, since the cell holds no field.
export function pasteAction(text, { editable, field }) {
  if (!isBlock(text) && editable) return "edit";
  return field ? "block" : "refuse";
}
