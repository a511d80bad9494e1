// SQL editor in place of a textarea: colours, line numbers, completion while typing. The textarea stays the field of
// its form, with the same text; without scripts it is the editor.
//
// The editor is in a shadow root, because the content policy refuses the style elements that CodeMirror writes into
// a document; in a shadow root it uses constructed style sheets. Colours are the variables of app.css.

import {
  acceptCompletion,
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
} from "../../vendor/codemirror/codemirror-autocomplete.js";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "../../vendor/codemirror/codemirror-commands.js";
import { SQLDialect, keywordCompletionSource, sql } from "../../vendor/codemirror/codemirror-lang-sql.js";
import { HighlightStyle, bracketMatching, syntaxHighlighting } from "../../vendor/codemirror/codemirror-language.js";
import { EditorState } from "../../vendor/codemirror/codemirror-state.js";
import { EditorView, keymap, lineNumbers, placeholder } from "../../vendor/codemirror/codemirror-view.js";
import { tags } from "../../vendor/codemirror/lezer-highlight.js";
import { tablesNamed } from "./sql_text.js";

const SPARK = SQLDialect.define({
  keywords:
    "all and anti as asc between by case cross cube current_row desc distinct else end escape except exists false " +
    "filter first following for from full group grouping having ilike in inner intersect interval is join last " +
    "lateral left like limit minus natural not null nulls offset on or order outer over partition pivot preceding " +
    "qualify range right rlike rollup row rows select semi sets some tablesample then true unbounded union unpivot " +
    "using values view when where window with within",
  types:
    "array bigint binary boolean date decimal double float int integer interval map smallint string struct timestamp " +
    "tinyint varchar",
  identifierQuotes: "`",
  backslashEscapes: true,
  doubleQuotedStrings: true,
});

const COLOURS = HighlightStyle.define([
  {
    tag: [tags.keyword, tags.typeName, tags.bool, tags.null],
    color: "light-dark(#7b3fc4, #c9a7f7)",
    fontWeight: "600",
  },
  { tag: [tags.string, tags.special(tags.string)], color: "light-dark(#18794e, #6fd2a3)" },
  { tag: tags.number, color: "light-dark(#a35200, #f0b35a)" },
  { tag: tags.comment, color: "var(--ink-soft)", fontStyle: "italic" },
]);

const THEME = EditorView.theme({
  "&": {
    color: "var(--ink)",
    backgroundColor: "var(--paper)",
    border: "1px solid var(--line-strong)",
    borderRadius: "6px",
    fontSize: "0.8125rem",
    maxHeight: "70vh",
  },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "2px" },
  ".cm-scroller": { fontFamily: "var(--tblr-font-monospace)", lineHeight: "1.5", overflow: "auto" },
  ".cm-content": { caretColor: "var(--ink)", padding: "0.5rem 0" },
  ".cm-gutters": {
    backgroundColor: "var(--paper)",
    color: "var(--ink-soft)",
    border: "0",
    borderRadius: "6px 0 0 6px",
  },
  ".cm-placeholder": { color: "var(--ink-soft)" },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--accent-wash)", outline: "0" },
  ".cm-tooltip": { backgroundColor: "var(--paper)", color: "var(--ink)", border: "1px solid var(--line-strong)" },
  ".cm-tooltip-autocomplete > ul": { fontFamily: "var(--tblr-font-monospace)", maxWidth: "min(44rem, 90vw)" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--paper)" },
  ".cm-completionDetail": { color: "inherit", fontStyle: "normal", opacity: "0.85" },
  ".cm-tooltip-autocomplete > ul > li": { padding: "0.2rem 0.5rem" },
});

const HINT = "Escape, then Tab leaves the editor. Control and Space complete.";
const LEAVES_WITHIN = 2000; // milliseconds
const editors = new WeakMap();

export const editorOf = (textarea) => editors.get(textarea);

// --- completion --------------------------------------------------------------------------------

const fetched = new Map();

// A refused or lost request is asked again at the next letter; typing goes on without completion.
function fetchJson(address) {
  if (!fetched.has(address)) {
    const answer = window
      .fetch(address, { headers: { Accept: "application/json" } })
      .then((response) => (response.ok ? response.json() : Promise.reject(new Error(String(response.status)))));
    fetched.set(address, answer);
    answer.catch(() => fetched.delete(address));
  }
  return fetched.get(address);
}

async function columnsOf(address, tables) {
  const names = Array.from(new Set(tables)).sort();
  if (!names.length) return {};
  const query = new URLSearchParams(names.map((name) => ["name", name]));
  const { columns } = await fetchJson(`${address}?${query}`);
  return columns;
}

// Spark's names that need quotes: others than letters, digits and underscores.
const quoted = (name) => (/^[A-Za-z_]\w*$/.test(name) ? name : `\`${name.replaceAll("`", "``")}\``);

const columnOption = ([name, type], boost = 0) => ({
  label: name,
  apply: quoted(name),
  detail: type,
  type: "property",
  boost,
});

function applyFunction(view, completion, from, to) {
  view.dispatch({
    changes: { from, to, insert: `${completion.label}()` },
    selection: { anchor: from + completion.label.length + 1 },
    userEvent: "input.complete",
  });
}

const aliasOption = ({ name, alias }) => ({ label: alias, detail: name, type: "variable", boost: 1 });

const functionOption = (name) => ({
  label: name,
  detail: "function",
  type: "function",
  apply: applyFunction,
  boost: -1,
});

// The ways in which a query names a table before a column, in lower case.
function spellings(name) {
  const lower = name.toLowerCase();
  return [lower, lower.split(".")[1]];
}

function completionSource(address) {
  return async (context) => {
    const word = context.matchBefore(/[\w$.`]+/);
    if (!word && !context.explicit) return null;
    const typed = (word?.text ?? "").replaceAll("`", "");
    const tables = tablesNamed(context.state.doc.toString());
    const { names, functions } = await fetchJson(address);
    const prefix = typed.slice(0, typed.lastIndexOf(".") + 1);
    const from = (word?.from ?? context.pos) + (word ? word.text.lastIndexOf(".") + 1 : 0);
    if (prefix) {
      const before = prefix.slice(0, -1).toLowerCase();
      const own = tables.filter(({ name, alias }) => [alias, ...spellings(name)].includes(before));
      const known = own.map((table) => table.name).concat(names.filter((name) => name.toLowerCase() === before));
      const columns = Object.values(await columnsOf(address, known)).flat();
      const inSchema = names.filter((name) => name.toLowerCase().startsWith(prefix.toLowerCase()));
      const options = columns
        .map((column) => columnOption(column))
        .concat(inSchema.map((name) => ({ label: name.slice(prefix.length), type: "class" })));
      return options.length ? { from, options, validFor: /^[\w$]*$/ } : null;
    }
    const read = tables.map((table) => table.name);
    const columns = Object.values(await columnsOf(address, read)).flat();
    const options = [
      ...columns.map((column) => columnOption(column, 2)),
      ...tables.filter((table) => table.alias).map(aliasOption),
      ...names.map((name) => ({ label: name, type: "class" })),
      ...functions.map(functionOption),
    ];
    return { from: word?.from ?? context.pos, options, validFor: /^[\w$]*$/ };
  };
}

const ofSpark = keywordCompletionSource(SPARK, true);
const keywords = (context) => (context.matchBefore(/\.[\w$]*/) ? null : ofSpark(context));

// --- the editor --------------------------------------------------------------------------------

// Escape may also close the completion or undo the selection: the next Tab leaves the editor all the same.
function leavesByTab(view) {
  view.setTabFocusMode(LEAVES_WITHIN);
  return false;
}

// Browsers that replace a selection themselves may set an inline style, which the content policy refuses.
function replaceSelection(event, view) {
  const { from, to, empty } = view.state.selection.main;
  if (empty || event.inputType !== "insertText" || event.isComposing || event.data === null) return false;
  event.preventDefault();
  const insertion = () =>
    view.state.update(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
  const handlers = view.state.facet(EditorView.inputHandler);
  if (!handlers.some((handle) => handle(view, from, to, event.data, insertion))) view.dispatch(insertion());
  return true;
}

function labelOf(textarea) {
  return textarea.labels?.[0]?.textContent.trim() || textarea.name;
}

export function enhance(textarea, { run = null, selected = () => {} } = {}) {
  const host = document.createElement("div");
  host.className = "sql-editor";
  const root = host.attachShadow({ mode: "open" });
  const hint = document.createElement("div");
  hint.id = "hint";
  hint.hidden = true;
  hint.textContent = HINT;
  root.append(hint);
  textarea.before(host);
  textarea.classList.add("visually-hidden");
  textarea.tabIndex = -1;
  textarea.setAttribute("aria-hidden", "true");

  const address = textarea.dataset.completions;
  const keys = [
    { key: "Escape", run: leavesByTab },
    { key: "Tab", run: acceptCompletion },
    indentWithTab,
    ...closeBracketsKeymap,
    ...completionKeymap,
    ...historyKeymap,
    ...defaultKeymap,
  ];
  if (run) keys.unshift({ key: "Mod-Enter", run: () => (run(), true) });
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: textarea.value,
      extensions: [
        lineNumbers(),
        history(),
        bracketMatching(),
        closeBrackets(),
        autocompletion({ icons: false, activateOnTypingDelay: 150, override: [completionSource(address), keywords] }),
        sql({ dialect: SPARK }),
        syntaxHighlighting(COLOURS),
        THEME,
        EditorView.theme({ ".cm-content": { minHeight: `${textarea.rows * 1.5}em` } }),
        placeholder(textarea.placeholder),
        EditorView.contentAttributes.of({
          "aria-label": labelOf(textarea),
          "aria-describedby": "hint",
          tabindex: "0",
          autocapitalize: "off",
          ...(textarea.getAttribute("aria-invalid") ? { "aria-invalid": "true" } : {}),
        }),
        keymap.of(keys),
        EditorView.domEventHandlers({ beforeinput: replaceSelection }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && textarea.value !== view.state.doc.toString()) {
            textarea.value = view.state.doc.toString();
            textarea.dispatchEvent(new Event("input", { bubbles: true }));
          }
          if (update.selectionSet || update.docChanged) selected(!view.state.selection.main.empty);
        }),
      ],
    }),
  });
  const take = () => {
    if (textarea.value === view.state.doc.toString()) return;
    view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: textarea.value } });
  };
  textarea.addEventListener("input", take);
  textarea.addEventListener("change", take);
  textarea.labels?.forEach((label) => label.addEventListener("click", () => view.focus()));
  editors.set(textarea, view);
  return view;
}

export function insert(textarea, text) {
  const view = editorOf(textarea);
  view.dispatch(view.state.replaceSelection(text), { userEvent: "input", scrollIntoView: true });
  view.focus();
}

// Select the character at a line and column, both from 1.
export function goTo(textarea, lineNumber, column) {
  const view = editorOf(textarea);
  const line = view.state.doc.line(Math.min(lineNumber, view.state.doc.lines));
  const from = Math.min(line.from + column - 1, line.to);
  view.dispatch({ selection: { anchor: from, head: Math.min(from + 1, line.to) }, scrollIntoView: true });
  view.focus();
}
