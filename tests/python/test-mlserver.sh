#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The runtime for MLServer, and the programs of docs/mlserver.md. BP_TEST_MLSERVER names a Python that has mlserver,
# tritonclient[all], numpy, pytest and setuptools; `./quickstart check` installs neither mlserver nor tritonclient.
if ! "${BP_TEST_MLSERVER:-false}" -c 'import mlserver, tritonclient, numpy, pytest, setuptools' 2>/dev/null; then
  echo "1..0 # SKIP BP_TEST_MLSERVER names no Python with mlserver, tritonclient, numpy, pytest and setuptools"
  exit 0
fi
. "$top_srcdir/tests/tap.sh"
. "$top_srcdir/tests/python/package.sh"
ok /mlserver/package-builds package_builds "$BP_TEST_MLSERVER"
ok /mlserver/tests-pass "$BP_TEST_MLSERVER" -m pytest -q -p no:cacheprovider tests/test_mlserver.py
# Runs the settings of the page, a server on the ports of the page's client, and the client.
page_runs() {
  local folder=$work/page status=0 server
  mkdir -p "$folder/digits"
  sed -n '/^```json digits\/model-settings.json$/,/^```$/{/^```/d;p}' "$top_srcdir/docs/mlserver.md" >"$folder/digits/model-settings.json"
  cp "$top_srcdir/examples/digits/digits.onnx" "$folder/digits/"
  (cd "$folder" && MLSERVER_HOST=127.0.0.1 exec "$(dirname "$BP_TEST_MLSERVER")/mlserver" start digits) >"$folder/log" 2>&1 &
  server=$!
  "$BP_TEST_MLSERVER" - <<'PYTHON' && "$BP_TEST_MLSERVER" "$top_srcdir/tests/docs/check_pages.py" --python "$top_srcdir/docs/mlserver.md" "$folder" || status=1
import time, tritonclient.http
client, deadline = tritonclient.http.InferenceServerClient("127.0.0.1:8080"), time.monotonic() + 300
while time.monotonic() < deadline:
    try:
        if client.is_model_ready("digits"):
            break
    except Exception:
        time.sleep(0.2)
else:
    raise SystemExit("the server does not answer")
PYTHON
  kill "$server"
  wait "$server"
  [ "$status" = 0 ] || cat "$folder/log"
  return "$status"
}
ok /mlserver/page-runs page_runs
echo "1..$count"
