#!/usr/bin/env bash
# Installs a packed tarball as a user would (npm install -g) into a temporary prefix, and runs the demo from it.
# Fails on engine warnings, on a program that does not start, and on a demo that exports nothing.
# Usage: scripts/try-package.sh tidemark-1.2.3.tgz [options of npm install]
# NO_COMPILER=1 hides the compiler: every binary has to come with the packages.
set -euo pipefail
tarball="$(realpath "$1")"
shift
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
if [ -n "${NO_COMPILER:-}" ]; then
  export CC=false CXX=false
fi
npm install -g --prefix "$folder/prefix" --no-audit --no-fund "$@" "$tarball" 2>&1 | tee install.log
if grep -q EBADENGINE install.log; then
  echo "npm warned about engines on Node $(node --version)." >&2
  exit 1
fi
tidemark="$folder/prefix/bin/tidemark"
"$tidemark" --version
"$tidemark" demo --directory "$folder/demo" --port 0 --events 500 --organizations 3 --seconds 10 | tee demo.log
grep -q "events of history were exported" demo.log
"$tidemark" status --config "$folder/demo/tidemark.yaml"
test "$(find "$folder/demo/events" -name '*.jsonl*' | wc -l)" -gt 0
echo "The package works on Node $(node --version)."
