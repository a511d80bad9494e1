// The grid: a table [data-grid] whose cells have the keyboard of a spreadsheet (docs/understand/web.md, "The grid").
// Cells that can be edited have data-cell, data-kind and data-value; a line (tr) has data-key,
// data-version and the addresses data-save and data-move. What is typed is never lost: a refused or
// unsent text stays in its cell.
(function () {
  "use strict";

  var CELLS = '[role="gridcell"], [role="rowheader"]';
  var PAGE = 10;
  var MOVE_AFTER = 350;

  // --- where one is --------------------------------------------------------------------------
  function grid() {
    return document.querySelector("[data-grid]");
  }
  function cellOf(element) {
    var cell = element && element.closest && element.closest(CELLS);
    return cell && cell.closest("[data-grid]") ? cell : null;
  }
  function linesOf(table) {
    return Array.from(table.tBodies[0].rows);
  }
  function lineOf(key) {
    var line = document.getElementById("column-" + key);
    return line && line.closest("[data-grid]") ? line : null;
  }
  // Computed lines have cells over several columns, so a cell's column is counted, not its number.
  function columnOf(cell) {
    var column = 0;
    for (var one = cell.previousElementSibling; one; one = one.previousElementSibling) column += one.colSpan;
    return column;
  }
  function cellAt(line, column) {
    var found = line.cells[0];
    Array.from(line.cells).forEach(function (cell) {
      if (columnOf(cell) <= column) found = cell;
    });
    return found;
  }
  function named(line, name) {
    return line && line.querySelector('[data-cell="' + name + '"]');
  }

  // --- one tab stop --------------------------------------------------------------------------
  function prepare() {
    var table = grid();
    if (!table) return;
    table.querySelectorAll("tbody a, tbody button").forEach(function (inner) {
      inner.tabIndex = -1;
    });
    if (!table.querySelector('tbody [tabindex="0"]')) {
      var first = table.querySelector('tbody [role="rowheader"]');
      if (first) first.tabIndex = 0;
    }
  }
  function go(cell) {
    if (!cell) return;
    cell.closest("[data-grid]").querySelectorAll('tbody [tabindex="0"]').forEach(function (one) {
      one.tabIndex = -1;
    });
    cell.tabIndex = 0;
    cell.focus();
  }
  function step(cell, down, right) {
    var line = cell.parentElement;
    if (down) {
      var lines = linesOf(line.closest("table"));
      var to = Math.min(Math.max(lines.indexOf(line) + down, 0), lines.length - 1);
      return cellAt(lines[to], columnOf(cell));
    }
    return (right > 0 ? cell.nextElementSibling : cell.previousElementSibling) || cell;
  }
  // The next cell that can be edited, over the ends of lines.
  function nextEditable(cell, by) {
    var all = Array.from(cell.closest("[data-grid]").querySelectorAll("[data-kind]"));
    return all[all.indexOf(cell) + by] || cell;
  }
  function say(text) {
    var status = document.getElementById("grid-status");
    if (status) status.textContent = text;
  }

  // --- editing -------------------------------------------------------------------------------
  var TEMPLATES = { type: "edit-type", role: "edit-role", "yes-no": "edit-yes-no", sensitivity: "edit-sensitivity", long: "edit-long" };

  function editorOf(cell) {
    return cell.querySelector(".cell-editor");
  }
  function edit(cell, text) {
    if (!cell || !cell.dataset.kind || editorOf(cell)) return;
    var template = document.getElementById(TEMPLATES[cell.dataset.kind] || "edit-text");
    var editor = template.content.firstElementChild.cloneNode(true);
    var held = "typed" in cell.dataset ? cell.dataset.typed : cell.dataset.value;
    var value = text === undefined ? held : text;
    editor.setAttribute("aria-label", cell.dataset.label + " of " + cell.parentElement.dataset.name);
    if (cell.hasAttribute("aria-describedby")) {
      editor.setAttribute("aria-describedby", cell.getAttribute("aria-describedby"));
      editor.setAttribute("aria-invalid", "true");
    }
    if (editor.tagName === "SELECT") value = choose(editor, value, held);
    cell.classList.add("editing");
    cell.prepend(editor);
    editor.value = value;
    grow(editor);
    editor.focus();
    if (text === undefined && editor.select) editor.select();
  }
  // A letter that is typed into a choice takes the first that begins with it.
  function choose(editor, value, held) {
    var options = Array.from(editor.options).map(function (option) { return option.value; });
    if (options.indexOf(value) >= 0) return value;
    var begins = value && options.find(function (option) { return option.indexOf(value.toLowerCase()) === 0; });
    if (begins) return begins;
    if (options.indexOf(held) < 0) editor.add(new Option(held, held));
    return held;
  }
  function grow(editor) {
    if (editor.tagName !== "TEXTAREA") return;
    editor.rows = Math.min(Math.max(editor.value.split("\n").length, Math.ceil(editor.value.length / 28), 1), 12);
  }
  function close(cell) {
    var editor = editorOf(cell);
    if (!editor) return "";
    cell.classList.remove("editing"); // first: taking the editor away makes it lose the focus
    editor.remove();
    return editor.value;
  }
  function giveUp(cell) {
    close(cell);
    settle(cell);
    if (cell.shownBefore !== undefined) cell.querySelector(".cell-text").innerHTML = cell.shownBefore;
    delete cell.shownBefore;
    delete cell.dataset.typed;
  }
  // What was typed stands in the cell until the server has answered; what stood there is kept.
  function showTyped(cell, value) {
    var shown = cell.querySelector(".cell-text");
    if (cell.shownBefore === undefined) cell.shownBefore = shown.innerHTML;
    shown.textContent = value;
    cell.dataset.typed = value;
  }
  function settle(cell) {
    cell.removeAttribute("aria-invalid");
    cell.removeAttribute("aria-describedby");
    cell.querySelectorAll(".field-error").forEach(function (one) { one.remove(); });
  }
  function commit(cell) {
    var refusedBefore = "typed" in cell.dataset;
    var value = close(cell);
    if (value === cell.dataset.value) {
      if (refusedBefore) giveUp(cell);
      return;
    }
    save(cell, value);
  }

  // --- saving: one after the other, each over the version that the one before it left ------------
  var queue = Promise.resolve();
  var waiting = 0;

  function enqueue(work) {
    waiting += 1;
    queue = queue.then(work).catch(function (error) {
      window.console.error(error);
    }).then(function () {
      waiting -= 1;
    });
  }
  function token() {
    var cookie = document.cookie.match(/(?:^|; )csrftoken=([^;]+)/);
    return cookie ? decodeURIComponent(cookie[1]) : document.querySelector("[name=csrfmiddlewaretoken]").value;
  }
  function post(address, values) {
    return window.fetch(address, {
      method: "POST",
      body: new URLSearchParams(values),
      headers: { "HX-Request": "true", "HX-Current-URL": window.location.href, "X-CSRFToken": token() },
    });
  }
  function save(cell, value) {
    var key = cell.parentElement.dataset.key, name = cell.dataset.cell;
    flushMove();
    settle(cell);
    showTyped(cell, value);
    cell.setAttribute("aria-busy", "true");
    enqueue(function () {
      var line = lineOf(key);
      if (!line) return undefined;
      return post(line.dataset.save, { cell: name, value: value, version: line.dataset.version }).then(
        function (answer) { return answered(answer, key, name, value); },
        function () { refuse(key, name, value, "No answer from the server. What you typed is kept: save it again."); }
      );
    });
  }
  function answered(answer, key, name, value) {
    if (answer.headers.get("HX-Redirect")) {
      refuse(key, name, value, "Your session has ended. Sign in in another tab, then save again: what you typed is kept.");
      return undefined;
    }
    var target = answer.headers.get("HX-Retarget");
    if (target === "#grid-answer") refuse(key, name, value, "Not saved: somebody else changed this column, see above.");
    if (answer.status !== 200 && answer.status !== 422 && !target) {
      refuse(key, name, value, problem(answer.status));
      return undefined;
    }
    return answer.text().then(function (html) {
      if (target === "#columns") replacePanel(html, key + name);
      else if (target) show(html);
      else replaceLine(key, name, html);
      if (answer.status === 200) say("Saved: " + name + " of " + lineOf(key).dataset.name + ".");
      else if (answer.status === 422 && !document.querySelector(".cell-editor")) edit(named(lineOf(key), name));
    });
  }
  function problem(status) {
    if (status === 403) return "Not saved: you may not change columns any more, or you signed in anew. Load the page again.";
    if (status === 404) return "Not saved: the column is gone. Load the page again.";
    if (status === 503) return "Not saved: the control database does not answer. Save it again in a moment.";
    return "Not saved: the server could not do it (" + status + "). What you typed is kept.";
  }
  function refuse(key, name, value, why) {
    var cell = named(lineOf(key), name);
    if (!cell) return;
    cell.removeAttribute("aria-busy");
    settle(cell);
    cell.dataset.typed = value;
    var said = document.createElement("p");
    said.className = "field-error";
    said.id = "problem-" + key;
    said.setAttribute("role", "alert");
    said.textContent = why;
    cell.append(said);
    cell.setAttribute("aria-invalid", "true");
    cell.setAttribute("aria-describedby", said.id);
  }

  // --- what comes back -----------------------------------------------------------------------
  // What is open or under way while a part is replaced stays so in the new part.
  function kept(within) {
    var found = { editors: [], typed: [], focus: null };
    within.querySelectorAll("[data-kind]").forEach(function (cell) {
      var place = { key: cell.parentElement.dataset.key, name: cell.dataset.cell };
      var editor = editorOf(cell);
      if (editor) {
        cell.classList.remove("editing"); // what is taken away with its part is not left by the person
        found.editors.push(Object.assign(place, { text: editor.value, from: editor.selectionStart, to: editor.selectionEnd }));
      } else if (cell.getAttribute("aria-busy") || cell.hasAttribute("aria-invalid")) {
        found.typed.push(Object.assign(place, { value: cell.dataset.typed, busy: cell.getAttribute("aria-busy") }));
      }
    });
    var cell = cellOf(document.activeElement);
    if (cell && within.contains(cell)) {
      found.focus = { key: cell.parentElement.dataset.key, column: columnOf(cell), into: document.activeElement === cell };
    }
    return found;
  }
  function restore(found, except) {
    found.typed.forEach(function (one) {
      var cell = named(lineOf(one.key), one.name);
      if (!cell || (one.key + one.name) === except || cell.hasAttribute("aria-invalid")) return;
      showTyped(cell, one.value);
      if (one.busy) cell.setAttribute("aria-busy", "true");
      else refuse(one.key, one.name, one.value, "Not saved yet.");
    });
    if (found.focus && found.focus.key && lineOf(found.focus.key)) go(cellAt(lineOf(found.focus.key), found.focus.column));
    found.editors.forEach(function (one) {
      var cell = named(lineOf(one.key), one.name);
      if (!cell) return;
      edit(cell, one.text);
      var editor = editorOf(cell);
      if (editor && editor.setSelectionRange && typeof one.from === "number") editor.setSelectionRange(one.from, one.to);
    });
    prepare();
  }
  function replaceLine(key, name, html) {
    var line = lineOf(key);
    if (!line) return;
    var found = kept(line);
    var holder = document.createElement("template");
    holder.innerHTML = html.trim();
    line.replaceWith(holder.content.querySelector("tr"));
    restore(found, key + name);
  }
  function replacePanel(html, except) {
    var panel = document.getElementById("columns");
    var found = kept(panel);
    var holder = document.createElement("template");
    holder.innerHTML = html.trim();
    var fresh = holder.content.firstElementChild;
    panel.replaceWith(fresh);
    if (window.htmx) window.htmx.process(fresh);
    restore(found, except);
  }
  function show(html) {
    var box = document.querySelector("[data-grid-answer]");
    box.innerHTML = html;
    if (window.htmx) window.htmx.process(box);
    reveal();
  }
  function reveal() {
    var part = document.querySelector("[data-grid-answer] > section");
    if (part) part.focus();
  }

  // --- moving lines: at once for the eye, after a moment for the server --------------------------
  var moving = null;

  function move(line, by) {
    var up = by < 0, here = up ? "data-first" : "data-last", there = up ? "data-last" : "data-first";
    var other = up ? line.previousElementSibling : line.nextElementSibling;
    if (!line.dataset.key || !other || line.hasAttribute(here)) {
      say((line.dataset.name || "It") + " cannot move further " + (up ? "up" : "down") + ".");
      return;
    }
    if (moving && moving.key !== line.dataset.key) flushMove();
    var column = columnOf(cellOf(document.activeElement) || line.cells[0]);
    if (up) other.before(line);
    else other.after(line);
    [[other, line, here], [line, other, there]].forEach(function (one) {
      if (!one[0].hasAttribute(one[2])) return;
      one[0].removeAttribute(one[2]);
      one[1].setAttribute(one[2], "");
    });
    go(cellAt(line, column));
    say(line.dataset.name + (up ? " moved up." : " moved down."));
    if (moving) window.clearTimeout(moving.timer);
    moving = { key: line.dataset.key, by: (moving ? moving.by : 0) + by, timer: window.setTimeout(flushMove, MOVE_AFTER) };
  }
  function flushMove() {
    if (!moving) return;
    var asked = moving;
    moving = null;
    window.clearTimeout(asked.timer);
    if (!asked.by) return;
    enqueue(function () {
      var line = lineOf(asked.key);
      if (!line) return undefined;
      return post(line.dataset.move, { by: asked.by }).then(function (answer) {
        if (answer.headers.get("HX-Redirect")) return say("Not moved: your session has ended. Sign in and load the page again.");
        if (answer.status !== 200 && answer.status !== 409) return say("Not moved. " + problem(answer.status));
        return answer.text().then(function (html) { replacePanel(html, ""); });
      }, function () {
        say("Not moved: no answer from the server. Load the page again.");
      });
    });
  }

  // --- keys ----------------------------------------------------------------------------------
  document.addEventListener("keydown", function (event) {
    if (event.target.closest(".row-menu")) return inMenu(event);
    var cell = cellOf(event.target);
    if (!cell || event.isComposing) return undefined;
    if (event.target.classList.contains("cell-editor")) return inEditor(event, cell);
    if (event.target !== cell) return inWidget(event, cell);
    return inGrid(event, cell);
  });

  function inGrid(event, cell) {
    var command = event.ctrlKey || event.metaKey, line = cell.parentElement;
    var to = null;
    if (event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
      event.preventDefault();
      move(line, event.key === "ArrowUp" ? -1 : 1);
      return;
    }
    if (event.altKey) return;
    if (event.key === "ArrowDown") to = step(cell, command ? 1e6 : 1, 0);
    else if (event.key === "ArrowUp") to = step(cell, command ? -1e6 : -1, 0);
    else if (event.key === "ArrowRight") to = command ? line.cells[line.cells.length - 1] : step(cell, 0, 1);
    else if (event.key === "ArrowLeft") to = command ? line.cells[0] : step(cell, 0, -1);
    else if (event.key === "PageDown") to = step(cell, PAGE, 0);
    else if (event.key === "PageUp") to = step(cell, -PAGE, 0);
    else if (event.key === "Home") to = command ? linesOf(line.closest("table"))[0].cells[0] : line.cells[0];
    else if (event.key === "End") to = cellAt(command ? linesOf(line.closest("table")).pop() : line, 1e6);
    if (to) {
      event.preventDefault();
      go(to);
    } else if (event.key === "Enter" || event.key === "F2") {
      event.preventDefault();
      open(cell);
    } else if (event.key === " " && cell.dataset.kind === "yes-no") {
      event.preventDefault();
      save(cell, (cell.dataset.typed || cell.dataset.value) === "yes" ? "no" : "yes");
    } else if (cell.dataset.kind && (event.key === "Delete" || event.key === "Backspace")) {
      event.preventDefault();
      edit(cell, "");
    } else if (cell.dataset.kind && event.key.length === 1 && !command) {
      event.preventDefault();
      edit(cell, event.key);
    }
  }
  // What Enter does: edit, go to the rename, or into the links and buttons of a cell.
  function open(cell) {
    if (cell.dataset.kind) return edit(cell);
    if (cell.dataset.cell === "name") return cell.parentElement.querySelector("[data-rename]").click();
    var inner = cell.querySelector("a, button");
    if (!inner) return say("This is computed and cannot be edited.");
    return inner.tagName === "A" ? inner.focus() : inner.click();
  }
  function inWidget(event, cell) {
    if (event.key === "Escape") return go(cell);
    var all = Array.from(cell.querySelectorAll("a, button")), at = all.indexOf(event.target);
    var by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (by && all[at + by]) {
      event.preventDefault();
      all[at + by].focus();
    }
    return undefined;
  }
  function inEditor(event, cell) {
    var long = event.target.tagName === "TEXTAREA";
    if (event.key === "Escape") {
      event.preventDefault();
      giveUp(cell);
      go(cell);
    } else if (event.key === "Enter" && long && (event.shiftKey || event.altKey)) {
      if (event.altKey) event.target.setRangeText("\n", event.target.selectionStart, event.target.selectionEnd, "end");
      window.setTimeout(function () { grow(event.target); });
    } else if (event.key === "Enter") {
      event.preventDefault();
      var below = step(cell, event.shiftKey ? -1 : 1, 0);
      commit(cell);
      go(below);
    } else if (event.key === "Tab") {
      event.preventDefault();
      var beside = nextEditable(cell, event.shiftKey ? -1 : 1);
      commit(cell);
      go(beside);
    }
  }
  function inMenu(event) {
    var menu = event.target.closest(".row-menu");
    var all = Array.from(menu.querySelectorAll("a, button:not(:disabled)")), at = all.indexOf(event.target);
    var to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      all[(to + all.length) % all.length].focus();
    } else if (event.key === "Tab" || event.key === "Escape") {
      event.preventDefault();
      menu.hidePopover();
      go(cellOf(menu));
    }
  }

  // --- mouse, touch, focus ---------------------------------------------------------------------
  var hadFocus = null;
  document.addEventListener("pointerdown", function (event) {
    var cell = cellOf(event.target);
    hadFocus = cell && document.activeElement === cell ? cell : null;
  });
  document.addEventListener("click", function (event) {
    var by = event.target.closest("[data-move-by]");
    if (by && by.closest("[data-grid]")) {
      event.preventDefault();
      var line = by.closest("tr");
      by.closest(".row-menu").hidePopover();
      move(line, Number(by.dataset.moveBy));
      return;
    }
    var cell = cellOf(event.target);
    if (!cell || event.target.closest("a, button, .cell-editor, .row-menu")) return;
    if (hadFocus === cell) edit(cell);
    else if (!editorOf(cell)) go(cell);
  });
  document.addEventListener("dblclick", function (event) {
    var cell = cellOf(event.target);
    if (cell && !event.target.closest("a, button, .cell-editor")) edit(cell);
  });
  document.addEventListener("focusout", function (event) {
    var cell = cellOf(event.target);
    if (!cell || !event.target.classList.contains("cell-editor") || !cell.classList.contains("editing")) return;
    if (document.hasFocus()) commit(cell);
  });
  document.addEventListener("input", function (event) {
    if (event.target.classList.contains("cell-editor")) grow(event.target);
  });
  document.addEventListener("toggle", function (event) {
    var menu = event.target;
    if (!menu.classList || !menu.classList.contains("row-menu") || event.newState !== "open") return;
    var button = cellOf(menu).querySelector(".menu-button").getBoundingClientRect();
    var top = Math.min(button.bottom + 2, window.innerHeight - menu.offsetHeight - 8);
    menu.style.top = Math.max(top, 8) + "px";
    menu.style.left = Math.max(button.right - menu.offsetWidth, 8) + "px";
    var first = menu.querySelector("a, button:not(:disabled)");
    if (first) first.focus();
  }, true);

  // --- the clipboard -----------------------------------------------------------------------------
  document.addEventListener("copy", function (event) {
    var cell = cellOf(document.activeElement);
    if (!cell || cell !== document.activeElement || !("value" in cell.dataset)) return;
    if (String(window.getSelection())) return;
    event.preventDefault();
    event.clipboardData.setData("text/plain", cell.dataset.value);
    say("Copied.");
  });
  document.addEventListener("paste", function (event) {
    var cell = cellOf(document.activeElement);
    if (!cell || cell !== document.activeElement) return;
    var text = event.clipboardData.getData("text/plain");
    if (!text) return;
    event.preventDefault();
    if (!/[\t\n]/.test(text.replace(/\r?\n$/, "")) && cell.dataset.kind) {
      edit(cell, text.replace(/\r?\n$/, ""));
      return;
    }
    if (!cell.dataset.cell) {
      say("Paste into a cell that can be edited, or into a name.");
      return;
    }
    var form = document.querySelector("[data-paste-form]");
    form.elements.text.value = text;
    form.elements.cell.value = cell.dataset.cell;
    form.elements.column.value = cell.parentElement.dataset.key;
    form.requestSubmit();
  });

  // --- arriving and leaving ------------------------------------------------------------------------
  document.addEventListener("htmx:afterSettle", function (event) {
    prepare();
    if (event.target.closest && event.target.closest("[data-grid-answer]")) reveal();
  });
  // A conflict and a paste hold all that was typed: who leaves by them loses nothing.
  var leaving = false;
  ["submit", "click"].forEach(function (kind) {
    document.addEventListener(kind, function (event) {
      if (event.target.closest("[data-grid-answer] form, [data-grid-answer] a")) leaving = kind === "submit" || event.target.closest("a");
    });
  });
  window.addEventListener("beforeunload", function (event) {
    if (!grid() || leaving) return;
    if (waiting || moving || document.querySelector("[data-grid] .cell-editor, [data-grid] [data-typed]")) event.preventDefault();
  });
  prepare();
})();
