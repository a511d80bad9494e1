// The scripts of every page with the top bar. Each module listens on the document, so that parts which htmx
// brings later need no set-up of their own.

import "./page/copy_button.js";
import "./page/clock.js";
import "./page/live_part.js";
import "./page/connection.js";
import "./page/keyboard.js";
import "./page/selection.js";
import "./page/search.js";
import "./page/log.js";
import "./page/drafts.js";
import "./page/mentions.js";
import "./page/list_query.js";
import "./grid/grid.js";
import "./page/history_policy.js";
import "./page/format_options.js";
import "./page/dependent_fields.js";
import "./page/schedule_times.js";
import "./page/import_files.js";
import "./page/column_lineage.js";
import "./graph/graph.js";
import "./chart/chart.js";
