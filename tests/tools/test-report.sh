#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `backplane report`: its data, its page, and, with BP_TEST_LONG where chromium is installed, the page in a browser.
set -u
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/tools/onnx.sh"
backplane=$top_builddir/backplane
digits=$top_srcdir/examples/digits/digits.onnx
quick=(--shape image=1x1x28x28 --seconds 0)
export XDG_DATA_HOME=/proc/nonexistent XDG_CONFIG_HOME=/proc/nonexistent BACKPLANE_DEVICE=cpu TMPDIR=$work

# data PYTHON: evaluates an expression over d, the data of $work/data.json, and s, its first side.
data() {
  python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); s = d["sides"][0]; v = eval(sys.argv[2]); print(v); sys.exit(not v)' \
    "$work/data.json" "$1"
}

# The page contains the data that --json prints.
writes_data_and_page() {
  "$backplane" report "$digits" "${quick[@]}" --json -o "$work/page.html" >"$work/data.json" &&
    data 'json.loads(open("'"$work"'/page.html").read().split("id=\"data\">")[1].split("</script>")[0]) == d'
}

# conv1 and the nodes fused with it have one function; the used memory never exceeds the planned memory.
describes_operators() {
  data '[n for o in s["operators"] for n in o["computes"]][:3] == ["conv1", "relu1", "pool1"]' &&
    data 's["operators"][1]["inputs"][0] == s["operators"][0]["node"]' &&
    data 'all(o["min_ns"] > 0 and o["bytes"] > 0 and o["steps"] > 0 for o in s["operators"])' &&
    data 'max(o["live_bytes"] for o in s["operators"]) <= s["bench"]["planned_bytes"]' &&
    data 's["operators"][-1]["bytes"] == 4 * (1568 + 15680 + 10 + 10)' &&
    data 's["operators"][-1]["steps"] >= 15680 and s["operators"][-1]["device"] == "cpu:0"'
}

describes_the_rest() {
  data 's["ceilings"]["gflops"] > 0 and s["ceilings"]["gbps"] > 0' && data 's["machine"]["processors"] > 0' &&
    data 's["devices"][0]["device"] == "cpu:0" and s["inspected"]["input"][0]["name"] == "image"' && data 's["bench"]["median_ms"] > 0'
}

# A browser loads only the page, since the page names no other address.
loads_nothing() {
  grep -q "default-src 'none'" "$work/page.html" && ! grep -nE '(src|href)=|url\(|@import|https?://' "$work/page.html" | grep -v w3.org/2000/svg
}

# Markup in the name of a node does not end the script element of the page.
hostile_names() {
  unary Neg 01 "$(part 0a 0804)" '</script><b>' '<!--' >"$work/hostile.onnx"
  "$backplane" report "$work/hostile.onnx" --seconds 0 -o "$work/hostile.html" && grep -q 'u003c/script>' "$work/hostile.html" &&
    [ "$(grep -c '</script>' "$work/hostile.html")" = 2 ] && ! grep -q '<b>' "$work/hostile.html"
}

adds_earlier_runs() {
  unary Neg 01 "$(part 0a 0804)" >"$work/Neg.onnx"
  "$backplane" report "$work/Neg.onnx" "$work/Neg.onnx" --seconds 0 --earlier "$work/data.json" --json >"$work/three.json" &&
    [ "$(grep -c '"created"' "$work/three.json")" = 3 ] &&
    fails 1 "was not printed by" "$backplane" report "$work/Neg.onnx" --seconds 0 --json --earlier "$top_srcdir/examples/digits/reference.json" &&
    fails 1 nowhere.json "$backplane" report "$work/Neg.onnx" --seconds 0 --json --earlier "$work/nowhere.json"
}

# With open shapes, only a run knows the amount of computation.
open_shapes() {
  unary Neg 01 "$(part 0a "$(part 12 6e)")$(part 0a 0804)" >"$work/open.onnx"
  "$backplane" compile "$work/open.onnx" --device cpu -o "$work/open.so" &&
    "$backplane" report "$work/open.so" --seconds 0 --json --shape x=3x4 >"$work/data.json" &&
    data 's["operators"][0]["min_ns"] > 0 and "steps" not in s["operators"][0] and "bytes" not in s["operators"][0]'
}

refuses() {
  fails 2 "needs --output FILE.html" "$backplane" report "$digits" && fails 2 "one model or several" "$backplane" report -o "$work/x.html" &&
    fails 1 "/nowhere/x.html: cannot write" "$backplane" report "$work/Neg.onnx" --seconds 0 -o /nowhere/x.html &&
    fails 2 "at least 0" "$backplane" report "$digits" --seconds -1 --json
}

# browse PAGE WIDTH SCRIPT: prints the page as chromium shows it after the script.
browse() {
  sed '/<\/body>/d; /<\/html>/d' "$work/$1.html" >"$work/browsed.html"
  printf '<script>%s</script></body></html>\n' "$3" >>"$work/browsed.html"
  timeout 120 chromium --headless=new --no-sandbox --disable-gpu --user-data-dir="$work/chromium" --virtual-time-budget=3000 \
    --window-size="$2,1000" --dump-dom "file://$work/browsed.html" 2>"$work/err" | sed '/<script/,/<\/script>/d' >"$work/dom"
  [ -s "$work/dom" ]
}

# Prints the rows of the table of operators, in the order of their text.
sorts() {
  browse page 1600 'for (const b of document.querySelectorAll("#side th button")) if (b.textContent == "Node") { b.click(); document.title = "clicked"; }' &&
    grep -q '<title>clicked' "$work/dom" && grep -q 'aria-sort="ascending"' "$work/dom" &&
    grep -oE '<td class="t">[0-9]+:[a-z0-9]+</td>' "$work/dom" | tee "$work/rows" && [ "$(wc -l <"$work/rows")" -ge 5 ] && sort -c "$work/rows"
}

# At 400 pixels, where headings and texts wrap, and at 1600 pixels, no element is wider than the page; wide tables
# scroll in their frames.
fits() {
  local width
  for width in 400 1600; do
    browse page 1600 "document.body.style.width = '${width}px'; showSide(); const m = document.querySelector('main');
      document.title = m.scrollWidth <= ${width} && document.querySelectorAll('#side svg circle').length >= 5 ? 'fits' : 'wide ' + m.scrollWidth" &&
      grep '<title>' "$work/dom" && grep -q '<title>fits' "$work/dom" || return 1
  done
}

shows_hostile_names() {
  browse hostile 500 'document.title = document.querySelectorAll("b").length + " elements"' && grep -q '<title>0 elements' "$work/dom" &&
    grep -q '&lt;/script&gt;&lt;b&gt;' "$work/dom"
}

if ! python3 -c '' 2>/dev/null; then
  echo 1..1
  echo "ok 1 report # SKIP there is no python3"
  exit 0
fi
ok report-writes-data-and-page writes_data_and_page
ok operators-have-shapes-bytes-steps-and-inputs describes_operators
ok device-machine-and-ceilings-are-there describes_the_rest
ok page-loads-nothing loads_nothing
ok names-in-the-page-are-text hostile_names
ok earlier-runs-are-added adds_earlier_runs
ok steps-of-open-shapes-are-not-known open_shapes
ok report-says-what-is-wrong refuses
if [ -n "${BP_TEST_LONG-}" ] && command -v chromium >/dev/null; then
  ok browser-sorts-a-table sorts
  ok browser-shows-the-page-narrow-and-wide fits
  ok browser-shows-names-as-text shows_hostile_names
fi
echo "1..$count"
