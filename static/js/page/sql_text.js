// Texts of SQL: statements, and the tables that one names. Nothing here needs a page.

// Quoted names and texts, comments, and the semicolons between statements.
const PARTS = /'(?:[^'\\]|\\.|'')*'?|"(?:[^"\\]|\\.|"")*"?|`(?:[^`]|``)*`?|--[^\n]*|\/\*[^]*?(?:\*\/|$)|;/g;
const COMMENTS = /--[^\n]*|\/\*[^]*?(?:\*\/|$)/g;

// Blank lines and columns before the statement keep the line and column of its errors.
function placed(text, from, to) {
  const lines = text.slice(0, from).split("\n");
  return "\n".repeat(lines.length - 1) + " ".repeat(lines.at(-1).length) + text.slice(from, to).trimEnd();
}

// The statements of a part of a text, each at its place; a part without a word is none.
export function statements(text, from = 0, to = text.length) {
  const found = [];
  let start = from;
  const add = (end) => {
    const own = text.slice(start, end);
    if (own.replace(COMMENTS, "").trim()) {
      const first = start + own.length - own.trimStart().length;
      found.push(placed(text, first, end));
    }
    start = end + 1;
  };
  for (const part of text.slice(from, to).matchAll(PARTS)) {
    if (part[0] === ";") add(from + part.index);
  }
  add(to);
  return found;
}

// A statement on one line, for the label of its result.
export function shortened(statement, length = 28) {
  const line = statement.replace(COMMENTS, " ").trim().replace(/\s+/g, " ");
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

const TABLE = /\b(?:from|join)\s+(`[^`]+`|[\w$]+)\.(`[^`]+`|[\w$]+)(?:\s+(?:as\s+)?([\w$]+))?/gi;
const NOT_ALIAS = new Set(
  (
    "where group order having limit join inner left right full cross semi anti on using union except intersect " +
    "lateral"
  ).split(" "),
);

// The tables after FROM and JOIN with their aliases in lower case.
export function tablesNamed(text) {
  const plain = text.replace(COMMENTS, " ");
  return Array.from(plain.matchAll(TABLE), ([, schema, name, alias]) => {
    const own = alias && !NOT_ALIAS.has(alias.toLowerCase()) ? alias.toLowerCase() : "";
    return { name: `${schema}.${name}`.replaceAll("`", ""), alias: own };
  });
}
